// Tensors that callers describe, checked before anything is read, as views of our own.
#pragma once

#include <ridgeline/ridgeline.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/tensor_view.h"

namespace ridgeline {

// A tensor whose description holds: a known dtype, sizes from 1 on, an aligned address, strides
// that are not negative but for operands, and an extent that an address space can have.
struct ClaimedTensor {
  const char* name = "";
  TensorView view = {};
  uintptr_t begin = 0, end = 0;  // of the bytes from its lowest to its highest element
};

// What is done with a tensor. Inputs may repeat themselves along batch and heads (stride 0),
// operands of score functions along all axes; they may also be integers and booleans, and walk
// backwards (a negative stride). No two elements of an output may share memory.
enum class Access { read, write, operand };

// Where a call's tensors have to be. To warm up, no memory is needed.
struct TensorRules {
  rl_device device;
  bool needs_data = true;
};

// Throws a usage error that names the tensor, what it has and what was expected; an unsupported one
// for a valid dtype that no kernel serves.
ClaimedTensor read_tensor(const rl_tensor* tensor, const char* name, const TensorRules& rules,
                          Access access);

void expect_rank(const ClaimedTensor& tensor, int rank, const char* axes);
void expect_type(const ClaimedTensor& tensor, DType dtype, const Shape& shape);

// Throws a usage error when an output shares memory with another tensor. Outputs that interleave,
// such as the three parts of a packed gradient, share none.
void expect_apart(std::span<const ClaimedTensor> outputs, std::span<const ClaimedTensor> inputs);

// The caller's workspace: there, large enough, aligned, and apart from all tensors.
inline constexpr size_t kWorkspaceAlignment = 256;
void expect_workspace(const void* workspace, size_t bytes, size_t needed,
                      std::initializer_list<std::span<const ClaimedTensor>> tensors);

}  // namespace ridgeline

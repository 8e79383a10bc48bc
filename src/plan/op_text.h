// The names of dtypes in kernels, and the text and cost of pointwise ops in generated ones.
#pragma once

#include <string>
#include <string_view>

#include "graph/dtype.h"
#include "graph/op.h"

namespace ridgeline {

// The type of elements.cuh and of codegen/host_preamble.cc that stores a dtype.
const char* element_name(DType dtype);
// The fold of kernels/cuda/groups.cuh that a reduction uses.
const char* fold_name(Op op);

struct FusedOp {
  std::string_view text =
      {};          // of an expression: {0}, {1}, {2} are the operands; empty: never fused
  int weight = 1;  // arithmetic of one element, in additions
};

// Functions named in the text are those of pointwise_functions(), and those that elements.cuh and
// codegen/host_preamble.cc write by hand.
FusedOp fused_op(Op op);

// The fp32 functions of the pointwise ops, in the language of the kernels.
enum class KernelLanguage { cuda, host };
std::string pointwise_functions(KernelLanguage language);
// For GPUs: the ops that are expressions as functions, since pointwise.cu calls its op by name.
std::string pointwise_operators();

}  // namespace ridgeline

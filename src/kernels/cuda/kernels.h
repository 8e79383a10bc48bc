// One row per op: what the CUDA device needs to run a node. Matmuls go to the library and have no
// planner (runtime/cuda/matmul.h).
#pragma once

#include "cost/product_paths.h"
#include "kernels/cuda/launch.h"

namespace ridgeline {

struct CudaOp {
  // The launches; null for inputs, constants, pure views and matmul.
  std::vector<CudaLaunch> (*plan)(const CudaCall&) = nullptr;
  // Device memory that a node needs while it runs, beyond inputs and outputs; null: none.
  Bytes (*scratch)(const Node& node, std::span<const TensorType> inputs,
                   const CudaFacts& device) = nullptr;
  // Whether the planner takes constants by value; else they must be in device memory.
  bool takes_values = false;
};
const CudaOp& cuda_op(Op op);

// The arithmetic that computes the products of an op, in the library or in the flash kernels.
ProductPath cuda_product_path(Op op, DType dtype);

// The scratch of a node, by the row of its op.
Bytes cuda_scratch(const Node& node, std::span<const TensorType> inputs, const CudaFacts& device);

std::vector<CudaLaunch> plan_iota(const CudaCall& call);
std::vector<CudaLaunch> plan_pointwise(const CudaCall& call);
std::vector<CudaLaunch> plan_reshape(const CudaCall& call);
std::vector<CudaLaunch> plan_pad(const CudaCall& call);
std::vector<CudaLaunch> plan_softmax(const CudaCall& call);
std::vector<CudaLaunch> plan_softmax_gradient(const CudaCall& call);
std::vector<CudaLaunch> plan_log_softmax(const CudaCall& call);
std::vector<CudaLaunch> plan_log_softmax_gradient(const CudaCall& call);
std::vector<CudaLaunch> plan_reduction(const CudaCall& call);
Bytes reduction_scratch(const Node& node, std::span<const TensorType> inputs,
                        const CudaFacts& device);
std::vector<CudaLaunch> plan_gather(const CudaCall& call);
std::vector<CudaLaunch> plan_scatter_add(const CudaCall& call);
std::vector<CudaLaunch> plan_pick(const CudaCall& call);
std::vector<CudaLaunch> plan_place(const CudaCall& call);
std::vector<CudaLaunch> plan_argmax(const CudaCall& call);
Bytes argmax_scratch(const Node& node, std::span<const TensorType> inputs, const CudaFacts& device);
std::vector<CudaLaunch> plan_append(const CudaCall& call);
std::vector<CudaLaunch> plan_advance(const CudaCall& call);
std::vector<CudaLaunch> plan_ring_positions(const CudaCall& call);
std::vector<CudaLaunch> plan_sum_of_squares(const CudaCall& call);
Bytes sum_of_squares_scratch(const Node& node, std::span<const TensorType> inputs,
                             const CudaFacts& device);
std::vector<CudaLaunch> plan_adamw_update(const CudaCall& call);
std::vector<CudaLaunch> plan_loss_scale_update(const CudaCall& call);
std::vector<CudaLaunch> plan_concat(const CudaCall& call);
std::vector<CudaLaunch> plan_attention(const CudaCall& call);
std::vector<CudaLaunch> plan_attention_gradient(const CudaCall& call);
Bytes attention_scratch(const Node& node, std::span<const TensorType> inputs,
                        const CudaFacts& device);
Bytes attention_gradient_scratch(const Node& node, std::span<const TensorType> inputs,
                                 const CudaFacts& device);

// Specialisations for tests that compile them: of all kernels but attention, and of attention.
std::vector<CudaKernel> eager_kernel_samples(int compute_capability);
std::vector<CudaKernel> flash_samples(int compute_capability);

}  // namespace ridgeline

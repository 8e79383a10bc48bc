// One CPU kernel per op, which the eager executor calls for a node.
#pragma once

#include <span>

#include "base/error.h"
#include "graph/graph.h"
#include "kernels/cpu/context.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

struct KernelCall {
  const Node& node;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;  // contiguous; those of an update are its inputs
};

using CpuKernel = void (*)(const KernelCall&, const CpuContext&);

// Returns null for inputs, constants and pure views, which run nothing.
CpuKernel cpu_kernel(Op op);

// What products throw for tf32: no CPU rounds operands to it, and calling fp32 so would mislead.
Error no_tf32();

// Returns how many rows a cache has seen, from its i32 [1]; throws a usage error if negative.
int64_t position_of(const TensorView& position);

void iota_kernel(const KernelCall& call, const CpuContext& context);
void pointwise_kernel(const KernelCall& call, const CpuContext& context);
void reshape_kernel(const KernelCall& call, const CpuContext& context);
void pad_kernel(const KernelCall& call, const CpuContext& context);
void softmax_kernel(const KernelCall& call, const CpuContext& context);
void softmax_gradient_kernel(const KernelCall& call, const CpuContext& context);
void log_softmax_kernel(const KernelCall& call, const CpuContext& context);
void log_softmax_gradient_kernel(const KernelCall& call, const CpuContext& context);
void reduction_kernel(const KernelCall& call, const CpuContext& context);
void matmul_kernel(const KernelCall& call, const CpuContext& context);
void library_matmul_kernel(const KernelCall& call, const CpuContext& context);
void attention_kernel(const KernelCall& call, const CpuContext& context);
void cached_attention_kernel(const KernelCall& call, const CpuContext& context);
void attention_gradient_kernel(const KernelCall& call, const CpuContext& context);
void gather_kernel(const KernelCall& call, const CpuContext& context);
void scatter_add_kernel(const KernelCall& call, const CpuContext& context);
void pick_kernel(const KernelCall& call, const CpuContext& context);
void place_kernel(const KernelCall& call, const CpuContext& context);
void argmax_kernel(const KernelCall& call, const CpuContext& context);
void sum_of_squares_kernel(const KernelCall& call, const CpuContext& context);
void adamw_update_kernel(const KernelCall& call, const CpuContext& context);
void loss_scale_update_kernel(const KernelCall& call, const CpuContext& context);
void append_kernel(const KernelCall& call, const CpuContext& context);
void advance_kernel(const KernelCall& call, const CpuContext& context);
void ring_positions_kernel(const KernelCall& call, const CpuContext& context);
void concat_kernel(const KernelCall& call, const CpuContext& context);

}  // namespace ridgeline

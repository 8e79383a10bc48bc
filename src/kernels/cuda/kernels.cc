#include "kernels/cuda/kernels.h"

#include "kernels/cuda/attention/flash_tiles.h"

namespace ridgeline {

const CudaOp& cuda_op(Op op) {
  static constexpr OpTable<CudaOp> kTable = {
      [](const PointwiseRow&) { return CudaOp{.plan = plan_pointwise, .takes_values = true}; },
      {
          {Op::input, {}},
          {Op::constant, {}},
          {Op::iota, {plan_iota}},
          {Op::softmax, {plan_softmax}},
          {Op::softmax_gradient, {plan_softmax_gradient}},
          {Op::log_softmax, {plan_log_softmax}},
          {Op::log_softmax_gradient, {plan_log_softmax_gradient}},
          {Op::sum, {plan_reduction, reduction_scratch}},
          {Op::mean, {plan_reduction, reduction_scratch}},
          {Op::max, {plan_reduction, reduction_scratch}},
          {Op::matmul, {}},  // by the library
          {Op::attention, {plan_attention, attention_scratch}},
          {Op::attention_gradient, {plan_attention_gradient, attention_gradient_scratch}},
          {Op::gather, {plan_gather}},
          {Op::scatter_add, {plan_scatter_add}},
          {Op::pick, {plan_pick}},
          {Op::place, {plan_place}},
          {Op::argmax, {plan_argmax, argmax_scratch}},
          {Op::sum_of_squares, {plan_sum_of_squares, sum_of_squares_scratch}},
          {Op::adamw_update, {plan_adamw_update}},
          {Op::loss_scale_update, {plan_loss_scale_update}},
          {Op::append, {plan_append}},
          {Op::advance, {plan_advance}},
          {Op::ring_positions, {plan_ring_positions}},
          // called only where strides cannot express it
          {Op::reshape, {.plan = plan_reshape, .takes_values = true}},
          {Op::permute, {}},
          {Op::expand, {}},
          {Op::slice, {}},
          {Op::concat, {.plan = plan_concat, .takes_values = true}},
          {Op::pad, {.plan = plan_pad, .takes_values = true}},
          // executors start collectives through a communicator
          {Op::all_reduce, {}},
          {Op::reduce_scatter, {}},
          {Op::all_gather, {}},
      },
  };
  return kTable[op];
}

ProductPath cuda_product_path(Op op, DType dtype) {
  const bool is_flash = op == Op::attention || op == Op::attention_gradient;
  const int planes = FlashShape{.dtype = dtype}.planes();
  if (!is_flash || planes == 0) return {dtype, 1};
  return {DType::f16, planes == 1 ? 1 : 3};  // high high + high low + low high
}

Bytes cuda_scratch(const Node& node, std::span<const TensorType> inputs, const CudaFacts& device) {
  const CudaOp& op = cuda_op(node.op);
  return op.scratch == nullptr ? Bytes{} : op.scratch(node, inputs, device);
}

}  // namespace ridgeline

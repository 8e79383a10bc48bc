#include "kernels/cuda/kernels.h"

#include "kernels/cuda/flash_tiles.h"

namespace ridgeline {

CudaPlanner cuda_planner(Op op) {
  static constexpr OpTable<CudaPlanner> kTable = {
      {Op::input, nullptr},
      {Op::constant, nullptr},
      {Op::iota, plan_iota},
      {Op::negate, plan_pointwise},
      {Op::exp, plan_pointwise},
      {Op::log, plan_pointwise},
      {Op::sqrt, plan_pointwise},
      {Op::rsqrt, plan_pointwise},
      {Op::sin, plan_pointwise},
      {Op::cos, plan_pointwise},
      {Op::tanh, plan_pointwise},
      {Op::sigmoid, plan_pointwise},
      {Op::silu, plan_pointwise},
      {Op::cast, plan_pointwise},
      {Op::add, plan_pointwise},
      {Op::subtract, plan_pointwise},
      {Op::multiply, plan_pointwise},
      {Op::divide, plan_pointwise},
      {Op::maximum, plan_pointwise},
      {Op::less, plan_pointwise},
      {Op::less_equal, plan_pointwise},
      {Op::equal, plan_pointwise},
      {Op::where, plan_pointwise},
      {Op::silu_gradient, plan_pointwise},
      {Op::softmax, plan_softmax},
      {Op::softmax_gradient, plan_softmax_gradient},
      {Op::log_softmax, plan_log_softmax},
      {Op::log_softmax_gradient, plan_log_softmax_gradient},
      {Op::sum, plan_reduction},
      {Op::mean, plan_reduction},
      {Op::max, plan_reduction},
      {Op::matmul, nullptr},  // the library's
      {Op::attention, plan_attention},
      {Op::attention_gradient, plan_attention_gradient},
      {Op::gather, plan_gather},
      {Op::scatter_add, plan_scatter_add},
      {Op::pick, plan_pick},
      {Op::place, plan_place},
      {Op::sum_of_squares, plan_sum_of_squares},
      {Op::adamw_update, plan_adamw_update},
      {Op::reshape, plan_reshape},  // called only where strides cannot express it
      {Op::permute, nullptr},
      {Op::expand, nullptr},
      {Op::slice, nullptr},
      {Op::concat, plan_concat},
      {Op::pad, plan_pad},
  };
  return kTable[op];
}

ProductPath cuda_product_path(Op op, DType dtype) {
  const bool is_flash = op == Op::attention || op == Op::attention_gradient;
  const int planes = FlashShape{.dtype = dtype}.planes();
  if (!is_flash || planes == 0) return {dtype, 1};
  return {DType::f16, planes == 1 ? 1 : 3};  // high high + high low + low high
}

Bytes cuda_scratch(const Node& node, std::span<const TensorType> inputs) {
  if (info(node.op).kind == OpClass::reduction) return reduction_scratch(node, inputs);
  if (node.op == Op::sum_of_squares) return sum_of_squares_scratch(inputs);
  if (node.op == Op::attention) return attention_scratch(inputs);
  if (node.op == Op::attention_gradient) return attention_gradient_scratch(node, inputs);
  return {};
}

}  // namespace ridgeline

#include "plan/op_text.h"

namespace ridgeline {

const char* element_name(DType dtype) {
  if (dtype == DType::bf16) return "bf16";
  if (dtype == DType::f16) return "fp16";
  if (dtype == DType::i32) return "int";
  if (dtype == DType::boolean) return "boolean";
  return "float";  // whatever is stored as fp32
}

const char* fold_name(Op op) {
  return op == Op::max ? "Max" : "Sum";
}

FusedOp fused_op(Op op) {
  static constexpr OpTable<FusedOp> kFusedOps = {
      {Op::input, {}},
      {Op::constant, {}},
      {Op::iota, {}},
      {Op::negate, {"-{0}"}},
      {Op::exp, {"exponential({0})", 4}},
      {Op::log, {"logarithm({0})", 4}},
      {Op::sqrt, {"square_root({0})", 2}},
      {Op::rsqrt, {"inverse_root({0})", 2}},
      {Op::sin, {"sine({0})", 6}},
      {Op::cos, {"cosine({0})", 6}},
      {Op::tanh, {"hyperbolic_tangent({0})", 5}},
      {Op::sigmoid, {"sigmoid({0})", 5}},
      {Op::silu, {"silu({0})", 5}},
      {Op::cast, {"{0}"}},
      {Op::add, {"{0} + {1}"}},
      {Op::subtract, {"{0} - {1}"}},
      {Op::multiply, {"{0} * {1}"}},
      {Op::divide, {"{0} / {1}", 2}},
      {Op::maximum, {"larger({0}, {1})"}},
      {Op::less, {"{0} < {1}"}},
      {Op::less_equal, {"{0} <= {1}"}},
      {Op::equal, {"{0} == {1}"}},
      {Op::where, {"{0} ? {1} : {2}"}},
      {Op::silu_gradient, {"silu_gradient({0}, {1})", 7}},
      {Op::softmax, {}},
      {Op::softmax_gradient, {}},
      {Op::log_softmax, {}},
      {Op::log_softmax_gradient, {}},
      {Op::sum, {}},
      {Op::mean, {}},
      {Op::max, {}},
      {Op::matmul, {}},
      {Op::attention, {}},
      {Op::attention_gradient, {}},
      {Op::gather, {}},
      {Op::scatter_add, {}},
      {Op::pick, {}},
      {Op::place, {}},
      {Op::sum_of_squares, {}},
      {Op::adamw_update, {}},
      {Op::reshape, {}},
      {Op::permute, {}},
      {Op::expand, {}},
      {Op::slice, {}},
      {Op::concat, {}},
      {Op::pad, {}},
  };
  return kFusedOps[op];
}

}  // namespace ridgeline

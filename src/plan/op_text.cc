#include "plan/op_text.h"

namespace ridgeline {

FusedOp fused_op(Op op) {
  switch (op) {
    case Op::negate:
      return {"-{0}"};
    case Op::exp:
      return {"exponential({0})", 4};
    case Op::log:
      return {"logarithm({0})", 4};
    case Op::sqrt:
      return {"square_root({0})", 2};
    case Op::rsqrt:
      return {"inverse_root({0})", 2};
    case Op::sin:
      return {"sine({0})", 6};
    case Op::cos:
      return {"cosine({0})", 6};
    case Op::tanh:
      return {"hyperbolic_tangent({0})", 5};
    case Op::sigmoid:
      return {"sigmoid({0})", 5};
    case Op::silu:
      return {"silu({0})", 5};
    case Op::silu_gradient:
      return {"silu_gradient({0}, {1})", 7};
    case Op::cast:
      return {"{0}"};
    case Op::add:
      return {"{0} + {1}"};
    case Op::subtract:
      return {"{0} - {1}"};
    case Op::multiply:
      return {"{0} * {1}"};
    case Op::divide:
      return {"{0} / {1}", 2};
    case Op::maximum:
      return {"larger({0}, {1})"};
    case Op::less:
      return {"{0} < {1}"};
    case Op::less_equal:
      return {"{0} <= {1}"};
    case Op::equal:
      return {"{0} == {1}"};
    case Op::where:
      return {"{0} ? {1} : {2}"};
    default:
      return {};
  }
}

}  // namespace ridgeline

// Pointwise ops on contiguous fp32, one vector loop each.
#include "kernels/cpu/simd/pointwise.h"

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/simd/vectors.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

Floats one() {
  return hn::Set(Wide(), 1.0f);
}
Floats truth(hn::Mask<Wide> mask) {
  return hn::IfThenElseZero(mask, one());
}

// Above this argument fp32 exp is infinity; the library's version is only defined below.
Floats exp_everywhere(Floats x) {
  const Wide wide;
  const Floats infinity = hn::Set(wide, __builtin_inff());
  return hn::IfThenElse(hn::Gt(x, hn::Set(wide, 88.7228f)), infinity, hn::Exp(wide, x));
}

Floats sigmoid(Floats x) {
  return hn::Div(one(), hn::Add(one(), exp_everywhere(hn::Neg(x))));
}

// Where sigmoid is 0, x may be -infinity: the product is 0 all the same.
Floats silu(Floats x) {
  const Floats s = sigmoid(x);
  return hn::IfThenZeroElse(hn::Eq(s, hn::Zero(Wide())), hn::Mul(x, s));
}

Floats silu_gradient(Floats x, Floats d_y) {
  const Floats s = sigmoid(x);
  return hn::Mul(d_y, hn::MulAdd(silu(x), hn::Sub(one(), s), s));
}

template <class F>
void unary(F f, const PointwiseOperand* operands, float* out, int64_t count) {
  const float* x = operands[0].data;
  if (!operands[0].is_scalar) return map(f, out, count, x);
  map([still = f(hn::Set(Wide(), x[0]))] { return still; }, out, count);
}

template <class F>
void binary(F f, const PointwiseOperand* operands, float* out, int64_t count) {
  const float* x = operands[0].data;
  const float* y = operands[1].data;
  if (operands[0].is_scalar)
    return unary([f, still = hn::Set(Wide(), x[0])](Floats v) { return f(still, v); }, operands + 1,
                 out, count);
  if (operands[1].is_scalar)
    return map([f, still = hn::Set(Wide(), y[0])](Floats v) { return f(v, still); }, out, count, x);
  map(f, out, count, x, y);
}

template <class F>
void ternary(F f, const PointwiseOperand* operands, float* out, int64_t count) {
  const float* x = operands[0].data;
  const float* y = operands[1].data;
  const float* z = operands[2].data;
  if (operands[0].is_scalar)
    return binary([f, still = hn::Set(Wide(), x[0])](Floats v, Floats w) { return f(still, v, w); },
                  operands + 1, out, count);
  if (operands[1].is_scalar) {
    const PointwiseOperand others[] = {operands[0], operands[2]};
    return binary([f, still = hn::Set(Wide(), y[0])](Floats v, Floats w) { return f(v, still, w); },
                  others, out, count);
  }
  if (operands[2].is_scalar)
    return map([f, still = hn::Set(Wide(), z[0])](Floats v, Floats w) { return f(v, w, still); },
               out, count, x, y);
  map(f, out, count, x, y, z);
}

}  // namespace

void pointwise(Op op, const PointwiseOperand* operands, float* out, int64_t count) {
  const auto one_operand = [&](auto f) { unary(f, operands, out, count); };
  const auto two_operands = [&](auto f) { binary(f, operands, out, count); };
  switch (op) {
    case Op::negate:
      return one_operand([](Floats x) { return hn::Neg(x); });
    case Op::exp:
      return one_operand([](Floats x) { return exp_everywhere(x); });
    case Op::log:
      return one_operand([](Floats x) { return hn::Log(Wide(), x); });
    case Op::sqrt:
      return one_operand([](Floats x) { return hn::Sqrt(x); });
    case Op::rsqrt:
      return one_operand([](Floats x) { return hn::Div(one(), hn::Sqrt(x)); });
    case Op::sin:
      return one_operand([](Floats x) { return hn::Sin(Wide(), x); });
    case Op::cos:
      return one_operand([](Floats x) { return hn::Cos(Wide(), x); });
    case Op::tanh:
      return one_operand([](Floats x) { return hn::Tanh(Wide(), x); });
    case Op::sigmoid:
      return one_operand([](Floats x) { return sigmoid(x); });
    case Op::silu:
      return one_operand([](Floats x) { return silu(x); });
    case Op::silu_gradient:
      return two_operands([](Floats x, Floats d_y) { return silu_gradient(x, d_y); });
    case Op::add:
      return two_operands([](Floats x, Floats y) { return hn::Add(x, y); });
    case Op::subtract:
      return two_operands([](Floats x, Floats y) { return hn::Sub(x, y); });
    case Op::multiply:
      return two_operands([](Floats x, Floats y) { return hn::Mul(x, y); });
    case Op::divide:
      return two_operands([](Floats x, Floats y) { return hn::Div(x, y); });
    case Op::maximum:
      return two_operands([](Floats x, Floats y) { return larger(x, y); });
    case Op::less:
      return two_operands([](Floats x, Floats y) { return truth(hn::Lt(x, y)); });
    case Op::less_equal:
      return two_operands([](Floats x, Floats y) { return truth(hn::Le(x, y)); });
    case Op::equal:
      return two_operands([](Floats x, Floats y) { return truth(hn::Eq(x, y)); });
    case Op::where:
      return ternary(
          [](Floats condition, Floats yes, Floats no) {
            return hn::IfThenElse(hn::Ne(condition, hn::Zero(Wide())), yes, no);
          },
          operands, out, count);
    case Op::cast:  // the conversion happens in load and store
      return one_operand([](Floats x) { return x; });
    default:  // no pointwise op: what comes out must not pass for a result
      return one_operand([](Floats) { return hn::Set(Wide(), __builtin_nanf("")); });
  }
}

}  // namespace ridgeline::RIDGELINE_ISA

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

// Above this argument exp is infinity in fp32; the library's version is undefined there.
Floats exp_everywhere(Floats x) {
  const Wide wide;
  const Floats infinity = hn::Set(wide, __builtin_inff());
  return hn::IfThenElse(hn::Gt(x, hn::Set(wide, 88.7228f)), infinity, hn::Exp(wide, x));
}

// The ops of graph/pointwise_ops.h on vectors; a missing one is a compile error.
struct Maths {
  static Floats negate(Floats x) { return hn::Neg(x); }
  static Floats exp(Floats x) { return exp_everywhere(x); }
  static Floats log(Floats x) { return hn::Log(Wide(), x); }
  static Floats sqrt(Floats x) { return hn::Sqrt(x); }
  static Floats rsqrt(Floats x) { return hn::Div(one(), hn::Sqrt(x)); }
  static Floats sin(Floats x) { return hn::Sin(Wide(), x); }
  static Floats cos(Floats x) { return hn::Cos(Wide(), x); }
  static Floats tanh(Floats x) { return hn::Tanh(Wide(), x); }
  static Floats sigmoid(Floats x) {
    return hn::Div(one(), hn::Add(one(), exp_everywhere(hn::Neg(x))));
  }
  // Where sigmoid is 0, x may be -infinity; the result is still 0.
  static Floats silu(Floats x) {
    const Floats s = sigmoid(x);
    return hn::IfThenZeroElse(hn::Eq(s, hn::Zero(Wide())), hn::Mul(x, s));
  }
  static Floats gelu_tanh(Floats x) {
    const Wide wide;
    const Floats slope =
        hn::MulAdd(hn::Mul(x, x), hn::Set(wide, 0.0356774081f), hn::Set(wide, 0.797884561f));
    const Floats t = hn::Add(one(), tanh(hn::Mul(x, slope)));
    const Floats value = hn::Mul(hn::Mul(x, hn::Set(wide, 0.5f)), t);
    return hn::IfThenZeroElse(hn::Eq(t, hn::Zero(wide)), value);
  }
  static Floats silu_gradient(Floats x, Floats d_y) {
    const Floats s = sigmoid(x);
    return hn::Mul(d_y, hn::MulAdd(silu(x), hn::Sub(one(), s), s));
  }
  static Floats add(Floats x, Floats y) { return hn::Add(x, y); }
  static Floats subtract(Floats x, Floats y) { return hn::Sub(x, y); }
  static Floats multiply(Floats x, Floats y) { return hn::Mul(x, y); }
  static Floats divide(Floats x, Floats y) { return hn::Div(x, y); }
  static Floats maximum(Floats x, Floats y) { return larger(x, y); }
  static Floats less(Floats x, Floats y) { return truth(hn::Lt(x, y)); }
  static Floats less_equal(Floats x, Floats y) { return truth(hn::Le(x, y)); }
  static Floats equal(Floats x, Floats y) { return truth(hn::Eq(x, y)); }
  static Floats cast(Floats x) { return x; }  // load and store convert
  static Floats where(Floats condition, Floats yes, Floats no) {
    return hn::IfThenElse(hn::Ne(condition, hn::Zero(Wide())), yes, no);
  }
};

// Comparisons of lanes that hold the bits of integers.
struct IntegerMaths {
  static auto integers(Floats x) { return hn::BitCast(hn::RebindToSigned<Wide>(), x); }
  static Floats truth_of(hn::Mask<hn::RebindToSigned<Wide>> mask) {
    return truth(hn::RebindMask(Wide(), mask));
  }
  static Floats less(Floats x, Floats y) { return truth_of(hn::Lt(integers(x), integers(y))); }
  static Floats less_equal(Floats x, Floats y) { return hn::Sub(one(), less(y, x)); }
  static Floats equal(Floats x, Floats y) { return truth_of(hn::Eq(integers(x), integers(y))); }
};

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
  switch (op) {
#define RIDGELINE_CASE(name, ...) \
  case Op::name:                  \
    return unary([](Floats x) { return Maths::name(x); }, operands, out, count);
    RIDGELINE_UNARY_OPS(RIDGELINE_CASE)
    RIDGELINE_CAST(RIDGELINE_CASE)
#undef RIDGELINE_CASE
#define RIDGELINE_CASE(name, ...) \
  case Op::name:                  \
    return binary([](Floats x, Floats y) { return Maths::name(x, y); }, operands, out, count);
    RIDGELINE_BINARY_OPS(RIDGELINE_CASE)
    RIDGELINE_COMPARISONS(RIDGELINE_CASE)
#undef RIDGELINE_CASE
    case Op::where:
      return ternary([](Floats x, Floats y, Floats z) { return Maths::where(x, y, z); }, operands,
                     out, count);
    default:  // not a pointwise op: NaN cannot be mistaken for a result
      return unary([](Floats) { return hn::Set(Wide(), __builtin_nanf("")); }, operands, out,
                   count);
  }
}

void compare_integers(Op op, const PointwiseOperand* operands, float* out, int64_t count) {
  switch (op) {
#define RIDGELINE_CASE(name, ...)                                                             \
  case Op::name:                                                                              \
    return binary([](Floats x, Floats y) { return IntegerMaths::name(x, y); }, operands, out, \
                  count);
    RIDGELINE_COMPARISONS(RIDGELINE_CASE)
#undef RIDGELINE_CASE
    default:  // not a comparison
      std::fill_n(out, count, __builtin_nanf(""));
  }
}

}  // namespace ridgeline::RIDGELINE_ISA

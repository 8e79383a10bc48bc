#include "kernels/reference/bounded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/larger.h"

namespace ridgeline {
namespace {

using Operands = std::span<const Bounded>;

constexpr double kSingle = info(DType::f32).epsilon;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Vectorised exponentials flush smaller results to this.
constexpr double kSmallestPower = 0x1p-99;

// An error of exactly 0 contributes nothing, even with an infinite slope.
double moved(double slope, double error) {
  return error == 0 ? 0 : std::abs(slope) * error;
}

// A monotone function is furthest off at the ends of the interval.
template <class F>
Bounded monotone(F f, const Bounded& x, double own) {
  const double value = f(x.value);
  if (x.error == 0) return {value, own};
  return {value, own + std::max(std::abs(f(x.value + x.error) - value),
                                std::abs(f(x.value - x.error) - value))};
}

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

double sigmoid_rounding(double x, double value) {
  return std::isfinite(x) ? value * kSingle * (3 + std::abs(x) * (1 - value)) : 0;
}

// The ops of graph/pointwise_ops.h before the result is rounded; a missing one is a compile error.
namespace rules {

Bounded negate(Operands x) {
  return {-x[0].value, x[0].error};
}

Bounded exp(Operands x) {
  const double value = std::exp(x[0].value);
  const double own =
      value == 0 || std::isinf(value) ? 0 : value * kSingle * (2 + std::abs(x[0].value));
  return monotone([](double at) { return std::exp(at); }, x[0], own + kSmallestPower);
}

Bounded log(Operands x) {
  if (x[0].error > 0 && x[0].value - x[0].error <= 0) return {std::log(x[0].value), kInfinity};
  const double value = std::log(x[0].value);
  const double own = std::isfinite(value) ? kSingle * (0.5 + 2 * std::abs(value)) : 0;
  return monotone([](double at) { return std::log(at); }, x[0], own);
}

Bounded sqrt(Operands x) {
  return monotone([](double at) { return std::sqrt(std::max(at, 0.0)); }, x[0], 0);
}

Bounded rsqrt(Operands x) {
  const double value = 1 / std::sqrt(x[0].value);
  if (x[0].error > 0 && x[0].value - x[0].error <= 0) return {value, kInfinity};
  return monotone([](double at) { return 1 / std::sqrt(at); }, x[0], 2 * kSingle * value);
}

// Slopes of at most 1; large arguments are reduced.
Bounded wave(double value, const Bounded& x) {
  return {value, x.error + kSingle * (2 + std::abs(x.value))};
}

Bounded sin(Operands x) {
  return wave(std::sin(x[0].value), x[0]);
}

Bounded cos(Operands x) {
  return wave(std::cos(x[0].value), x[0]);
}

Bounded tanh(Operands x) {
  return monotone([](double at) { return std::tanh(at); }, x[0], 4 * kSingle);
}

Bounded sigmoid(Operands x) {
  const double value = sigmoid_of(x[0].value);
  return monotone(sigmoid_of, x[0], sigmoid_rounding(x[0].value, value) + kSmallestPower);
}

Bounded silu(Operands x) {
  const double s = sigmoid_of(x[0].value);
  const double value = s == 0 ? 0 : x[0].value * s;
  const double own =
      std::isfinite(x[0].value) ? std::abs(x[0].value) * sigmoid_rounding(x[0].value, s) : 0;
  return {value, own + 1.1 * x[0].error + kSmallestPower};  // the steepest slope is below 1.1
}

Bounded gelu_tanh(Operands x) {
  const double at = x[0].value;
  const double inner = std::sqrt(2 / std::numbers::pi) * (at + 0.044715 * at * at * at);
  const double t = std::tanh(inner);
  const double value = t == -1 ? 0 : at / 2 * (1 + t);
  // The rounding of tanh and of its argument, then of the product.
  const double tangent_error =
      std::isfinite(inner) ? kSingle * (4 + 4 * std::abs(inner) * (1 - t * t)) : 4 * kSingle;
  const double own =
      std::isfinite(at) ? std::abs(at) / 2 * tangent_error + 2 * kSingle * std::abs(value) : 0;
  return {value, own + 1.2 * x[0].error};  // the steepest slope is below 1.2
}

Bounded silu_gradient(Operands x) {
  const double s = sigmoid_of(x[0].value);
  const double other = s == 0 ? 0 : x[0].value * s * (1 - s);
  const double slope = s + other;
  // Both terms are rounded before they cancel; the slope's own slope is at most 1/2.
  const double own = kSingle * (4 + std::abs(x[0].value)) * (s + std::abs(other));
  return {x[1].value * slope, moved(slope, x[1].error) +
                                  moved(x[1].value, own + x[0].error / 2 + kSmallestPower) +
                                  x[0].error * x[1].error};
}

Bounded add(Operands x) {
  return {x[0].value + x[1].value, x[0].error + x[1].error};
}

Bounded subtract(Operands x) {
  return {x[0].value - x[1].value, x[0].error + x[1].error};
}

Bounded multiply(Operands x) {
  return {x[0].value * x[1].value, moved(x[0].value, x[1].error) + moved(x[1].value, x[0].error) +
                                       moved(x[0].error, x[1].error)};
}

Bounded divide(Operands x) {
  const double value = x[0].value / x[1].value;
  const double least = std::abs(x[1].value) - x[1].error;
  if (x[1].error > 0 && least <= 0) return {value, kInfinity};
  return {value,
          x[0].error == 0 && x[1].error == 0 ? 0 : (x[0].error + moved(value, x[1].error)) / least};
}

Bounded maximum(Operands x) {
  return {larger(x[0].value, x[1].value), std::max(x[0].error, x[1].error)};
}

Bounded comparison(bool holds, Operands x) {
  const double between = std::abs(x[0].value - x[1].value);
  const double error = x[0].error + x[1].error;
  return {holds ? 1.0 : 0.0, error > 0 && between <= error ? 1.0 : 0.0};
}

Bounded less(Operands x) {
  return comparison(x[0].value < x[1].value, x);
}

Bounded less_equal(Operands x) {
  return comparison(x[0].value <= x[1].value, x);
}

Bounded equal(Operands x) {
  return comparison(x[0].value == x[1].value, x);
}

Bounded cast(Operands x) {
  return x[0];
}

Bounded where(Operands x) {
  const Bounded& chosen = x[x[0].value != 0 ? 1 : 2];
  const Bounded& other = x[x[0].value != 0 ? 2 : 1];
  if (x[0].error == 0) return chosen;
  return {chosen.value, std::abs(chosen.value - other.value) + chosen.error + other.error};
}

}  // namespace rules

Bounded before_rounding(Op op, Operands operands) {
  switch (op) {
#define RIDGELINE_CASE(name, ...) \
  case Op::name:                  \
    return rules::name(operands);
    RIDGELINE_UNARY_OPS(RIDGELINE_CASE)
    RIDGELINE_CAST(RIDGELINE_CASE)
    RIDGELINE_BINARY_OPS(RIDGELINE_CASE)
    RIDGELINE_COMPARISONS(RIDGELINE_CASE)
    RIDGELINE_CASE(where)
#undef RIDGELINE_CASE
    default:
      throw Error(ErrorKind::internal, fmt::format("'{}' is not a pointwise op", info(op).name));
  }
}

// Whether nothing is rounded: the op returns one of its operands, or a boolean.
bool is_exact(Op op) {
  return op == Op::negate || op == Op::maximum || op == Op::where || op == Op::less ||
         op == Op::less_equal || op == Op::equal;
}

double largest_finite(DType dtype) {
  return dtype == DType::f16 ? 65504 : 0x1.fep127;
}

}  // namespace

double sum_rounding(int64_t n) {
  return kSingle * (0.5 + std::sqrt(static_cast<double>(n)) / 8);
}

Bounded stored(Bounded x, DType dtype) {
  if (dtype == DType::boolean) return {x.value != 0 ? 1.0 : 0.0, x.error > 0 ? 1.0 : 0.0};
  if (dtype == DType::i32) return {std::trunc(x.value), x.error > 0 ? x.error + 1 : 0};
  if (!std::isfinite(x.value)) return x;
  if (std::abs(x.value) + x.error > largest_finite(dtype)) return {x.value, kInfinity};
  // Rounding to nearest in 16 bits is off by half a step; in fp32 a whole step is allowed, since
  // the arithmetic may also round an operand or a factor.
  const double step = is_16_bit(dtype) ? info(dtype).epsilon / 2 : kSingle;
  const double smallest = dtype == DType::f16 ? 0x1p-24 : 0x1p-126;
  return {x.value, x.error + step * (std::abs(x.value) + x.error) + smallest};
}

Bounded apply(Op op, Operands operands, DType dtype) {
  const Bounded result = before_rounding(op, operands);
  if (is_exact(op)) return result;
  // Computed in fp32, then rounded once more.
  return is_16_bit(dtype) ? stored(stored(result, DType::f32), dtype) : stored(result, dtype);
}

void BoundedSum::add(const Bounded& term, double independent) {
  sum_.value += term.value;
  sum_.error += term.error;
  magnitude_ += std::abs(term.value);
  independent_ += independent;
  independent_squares_ += independent * independent;
  ++count_;
}

Bounded BoundedSum::total(int64_t cut_off) const {
  // For uniform errors, 2.5 times the root of the sum of squared bounds is more than four standard
  // deviations; for few errors, the sum of their bounds is less.
  constexpr double kRoots = 2.5;
  // Standard deviations of a sum that grows monotonically.
  constexpr double kDeviations = 4;
  if (!std::isfinite(sum_.value)) return sum_;
  const double independent = std::min(independent_, kRoots * std::sqrt(independent_squares_));
  const double growth = kDeviations * sum_rounding(count_) + kSingle * static_cast<double>(cut_off);
  return {sum_.value, sum_.error + independent + growth * magnitude_};
}

double error_share(double got, const Bounded& expected) {
  if (std::isnan(expected.value)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isnan(got)) return got;
  const bool is_known = expected.error < kInfinity;  // also false for NaN, from an infinite value
  return got == expected.value || !is_known ? 0 : std::abs(got - expected.value) / expected.error;
}

int64_t tensor_core_steps(DType dtype, int64_t depth) {
  constexpr int64_t kStepBytes = 32;
  if (dtype != DType::tf32 && !is_16_bit(dtype)) return 0;
  return 1 + depth * info(dtype).size / kStepBytes;
}

}  // namespace ridgeline

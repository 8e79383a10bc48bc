#include "studies/precision/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/float16.h"
#include "base/random.h"

namespace ridgeline {
namespace {

constexpr FloatFormatInfo kFormats[] = {
    {FloatFormat::fp64, "fp64", 0x1p-52, std::numeric_limits<double>::max()},
    {FloatFormat::fp32, "fp32", 0x1p-23, std::numeric_limits<float>::max()},
    {FloatFormat::fp16, "fp16", 0x1p-10, 65504},
    {FloatFormat::bf16, "bf16", 0x1p-7, 0x1.fep127},
};

constexpr ReducedOpInfo kOps[] = {
    {ReducedOp::repeated, "repeated", "length x 0.01, one addition after the other"},
    {ReducedOp::sum, "sum", "of uniform values from 0 to 1"},
    {ReducedOp::dot, "dot", "of two vectors of normal values"},
    {ReducedOp::softmax, "softmax", "of normal logits"},
    {ReducedOp::rms_norm, "rms_norm", "x / sqrt(mean(x^2) + 1e-5)", true},
    {ReducedOp::layer_norm, "layer_norm", "(x - mean(x)) / sqrt(variance(x) + 1e-5)", true},
};

constexpr double kRepeated = 0.01;
constexpr long double kRepeatedExactly = 0.01L;
constexpr double kNormEpsilon = 1e-5;

using Doubles = std::vector<double>;
using Exact = std::vector<long double>;

// Avoids double rounding: a value that is first rounded to odd rounds correctly to a format a few
// bits narrower, because its last bit marks it as inexact.
template <class Float, class Bits>
Float to_odd(Float nearest, bool above, bool below) {
  if (!(above || below) || !std::isfinite(nearest) || (std::bit_cast<Bits>(nearest) & 1) != 0)
    return nearest;
  constexpr Float kInfinity = std::numeric_limits<Float>::infinity();
  return std::nextafter(nearest, above ? kInfinity : -kInfinity);
}

float float_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  return to_odd<float, uint32_t>(nearest, value > nearest, value < nearest);
}

double sum_to_odd(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  const double lost = (a - (sum - of_b)) + (b - of_b);
  return to_odd<double, uint64_t>(sum, lost > 0, lost < 0);
}

// The operands of a reduction before they are stored.
struct Operands {
  Doubles x, y;  // y: only for a dot product
};

Operands drawn(const RoundedReduction& reduction) {
  NormalRandom random(reduction.seed, info(reduction.op).name);
  Operands operands;
  const auto length = static_cast<size_t>(reduction.length);
  operands.x.resize(length, kRepeated);
  if (reduction.op == ReducedOp::repeated) return operands;
  for (double& value : operands.x)
    value = reduction.op == ReducedOp::sum ? random.uniform() : reduction.magnitude * random.next();
  if (reduction.op == ReducedOp::dot)
    for (size_t i = 0; i < length; ++i) operands.y.push_back(random.next());
  return operands;
}

Doubles stored(const Doubles& values, FloatFormat format) {
  Doubles result(values);
  for (double& value : result) value = rounded(value, format);
  return result;
}

// Sums in long double, whose 64-bit mantissa is exact enough for the comparison.
struct ExactSum {
  long double sum = 0, magnitude = 0;

  void add(long double term) {
    sum += term;
    magnitude += std::abs(term);
  }
};

ExactSum exact_sum(const Doubles& x, const Doubles& y) {
  ExactSum exact;
  for (size_t i = 0; i < x.size(); ++i)
    exact.add(y.empty() ? static_cast<long double>(x[i]) : static_cast<long double>(x[i]) * y[i]);
  return exact;
}

ErrorParts error_of_sum(const RoundedReduction& reduction) {
  const Operands operands = drawn(reduction);
  const Doubles x = stored(operands.x, reduction.values);
  const Doubles y = stored(operands.y, reduction.values);
  ExactSum exact = exact_sum(operands.x, operands.y);
  if (reduction.op == ReducedOp::repeated)
    exact.sum = exact.magnitude = kRepeatedExactly * static_cast<long double>(reduction.length);
  RoundingArithmetic arithmetic(reduction.accumulator);
  ErrorParts parts;
  double sum = 0;
  size_t last_change = 0;  // one past its index
  for (size_t i = 0; i < x.size(); ++i) {
    const double next = arithmetic.add(sum, y.empty() ? x[i] : arithmetic(x[i] * y[i]));
    if (next != sum) last_change = i + 1;
    sum = next;
  }
  const long double of_stored = exact_sum(x, y).sum;
  parts.result = sum;
  parts.exact = static_cast<double>(exact.sum);
  parts.representation = static_cast<double>((of_stored - exact.sum) / exact.magnitude);
  parts.accumulation = static_cast<double>((sum - of_stored) / exact.magnitude);
  parts.total = static_cast<double>((sum - exact.sum) / exact.magnitude);
  if (last_change < x.size()) parts.stalled_at = static_cast<int64_t>(last_change);
  parts.overflowed = arithmetic.overflowed();
  return parts;
}

Exact exact_softmax(const Doubles& x) {
  const double most = *std::max_element(x.begin(), x.end());
  Exact result;
  long double sum = 0;
  for (double value : x)
    sum += result.emplace_back(std::exp(static_cast<long double>(value) - most));
  for (long double& value : result) value /= sum;
  return result;
}

Doubles rounded_softmax(const Doubles& x, RoundingArithmetic& in) {
  const double most = *std::max_element(x.begin(), x.end());
  Doubles result;
  double sum = 0;
  for (double value : x) sum = in.add(sum, result.emplace_back(in(std::exp(in.add(value, -most)))));
  for (double& value : result) value = in(value / sum);
  return result;
}

Exact exact_norm(const Doubles& x, bool centred) {
  const auto count = static_cast<long double>(x.size());
  long double mean = 0, squares = 0;
  for (double value : x) mean += centred ? value / count : 0;
  for (double value : x) squares += (value - mean) * (value - mean);
  Exact result;
  for (double value : x)
    result.push_back((value - mean) / std::sqrt(squares / count + kNormEpsilon));
  return result;
}

Doubles rounded_norm(const Doubles& x, bool centred, RoundingArithmetic& in) {
  const auto count = static_cast<double>(x.size());
  Doubles result(x);
  if (centred) {
    double sum = 0;
    for (double value : x) sum = in.add(sum, value);
    const double mean = in(sum / count);
    for (double& value : result) value = in.add(value, -mean);
  }
  double squares = 0;
  for (double value : result) squares = in.add(squares, in(value * value));
  const double inverse_root = in(1 / std::sqrt(in.add(in(squares / count), in(kNormEpsilon))));
  for (double& value : result) value = in(value * inverse_root);
  return result;
}

template <class Values>
double root_mean_square(const Values& values) {
  long double squares = 0;
  for (auto value : values) squares += static_cast<long double>(value) * value;
  return static_cast<double>(std::sqrt(squares / static_cast<long double>(values.size())));
}

// The error of ops whose result is a vector: the parts are distances between vectors.
ErrorParts error_of_vector(const RoundedReduction& reduction) {
  const Doubles x = drawn(reduction).x;
  const Doubles kept = stored(x, reduction.values);
  const bool is_norm = info(reduction.op).is_norm;
  const bool centred = reduction.op == ReducedOp::layer_norm;
  RoundingArithmetic arithmetic(reduction.accumulator);
  const Exact exact = is_norm ? exact_norm(x, centred) : exact_softmax(x);
  const Exact of_kept = is_norm ? exact_norm(kept, centred) : exact_softmax(kept);
  const Doubles result =
      is_norm ? rounded_norm(kept, centred, arithmetic) : rounded_softmax(kept, arithmetic);
  const double scale = is_norm ? root_mean_square(exact) : 1;
  const auto distance = [&](const auto& a, const auto& b) {
    long double sum = 0, most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const long double error = std::abs(static_cast<long double>(a[i]) - b[i]);
      sum += error;
      if (!(error <= most)) most = error;  // a NaN stays: no later error is above it
      if (std::isnan(error)) break;
    }
    return static_cast<double>(is_norm ? most / scale : sum);
  };
  return {.result = is_norm ? root_mean_square(result)
                            : std::accumulate(result.begin(), result.end(), 0.0),
          .exact = scale,
          .total = distance(result, exact),
          .representation = distance(of_kept, exact),
          .accumulation = distance(result, of_kept),
          .overflowed = arithmetic.overflowed()};
}

}  // namespace

const Choices<FloatFormatInfo> kFloatFormats{"a float format", kFormats};
const Choices<ReducedOpInfo> kReducedOps{"an op", kOps};

double rounded(double value, FloatFormat format) {
  switch (format) {
    case FloatFormat::fp64:
      return value;
    case FloatFormat::fp32:
      return static_cast<float>(value);
    case FloatFormat::fp16:
      return f16_to_float(float_to_f16(float_to_odd(value)));
    case FloatFormat::bf16:
      return bf16_to_float(float_to_bf16(float_to_odd(value)));
  }
  return value;
}

double RoundingArithmetic::operator()(double value) {
  const double result = rounded(value, format_);
  if (std::isfinite(value) && !std::isfinite(result)) overflowed_ = true;
  return result;
}

double RoundingArithmetic::add(double a, double b) {
  return (*this)(format_ == FloatFormat::fp64 ? a + b : sum_to_odd(a, b));
}

ErrorParts error_of(const RoundedReduction& reduction) {
  const bool is_vector = info(reduction.op).is_norm || reduction.op == ReducedOp::softmax;
  return is_vector ? error_of_vector(reduction) : error_of_sum(reduction);
}

}  // namespace ridgeline

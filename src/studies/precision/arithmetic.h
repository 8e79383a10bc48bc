// Sums, softmaxes and norms in emulated arithmetic, where every operation rounds to a chosen float
// format, and the causes of their error:
//
//   const ErrorParts parts = error_of({.op = ReducedOp::repeated, .values = FloatFormat::fp16,
//                                      .accumulator = FloatFormat::fp16, .length = 1000});
//   parts.result          9.953125, where 1000 x 0.01 is 10
//   parts.representation  of 0.01, which is 0.0100021 in fp16
//   parts.accumulation    of the sum, which is rounded after each of 1000 additions
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "studies/choices.h"

namespace ridgeline {

enum class FloatFormat : uint8_t { fp64, fp32, fp16, bf16 };

struct FloatFormatInfo {
  FloatFormat format;
  std::string_view name;
  double epsilon;  // distance from 1 to the next value
  double largest;  // finite value
};
extern const Choices<FloatFormatInfo> kFloatFormats;
inline const FloatFormatInfo& info(FloatFormat format) {
  return kFloatFormats[format];
}

// Rounds to nearest, ties to even, in one rounding.
double rounded(double value, FloatFormat format);

// A sequence of operations, each rounded to `format`.
class RoundingArithmetic {
 public:
  explicit RoundingArithmetic(FloatFormat format) : format_(format) {}

  double operator()(double value);  // a result that is exact, or nearly so, in fp64
  double add(double a, double b);
  bool overflowed() const { return overflowed_; }  // whether a finite result became infinite

 private:
  FloatFormat format_;
  bool overflowed_ = false;
};

enum class ReducedOp : uint8_t { repeated, sum, dot, softmax, rms_norm, layer_norm };

struct ReducedOpInfo {
  ReducedOp op;
  std::string_view name;
  std::string_view summary;
  bool is_norm = false;
};
extern const Choices<ReducedOpInfo> kReducedOps;
inline const ReducedOpInfo& info(ReducedOp op) {
  return kReducedOps[op];
}

struct RoundedReduction {
  ReducedOp op = ReducedOp::sum;
  FloatFormat values = FloatFormat::fp32;       // the format that operands are stored in
  FloatFormat accumulator = FloatFormat::fp32;  // the format that every operation rounds to
  int64_t length = 1000;
  double magnitude = 1;  // of norms: the standard deviation of the operands
  uint64_t seed = 42;
};

// Sums and dot products: signed, relative to the sum of the terms' magnitudes, and total =
// representation + accumulation. Softmax: the sum of |p - exact p|. Norms: the largest error of an
// element, relative to the root mean square of the elements.
struct ErrorParts {
  double result = 0, exact = 0;  // the sum; for a softmax that of its results; for a norm their RMS
  double total = 0;
  double representation = 0;  // exact arithmetic on rounded operands against exact operands
  double accumulation = 0;    // rounded arithmetic against exact arithmetic on the same operands
  int64_t stalled_at = 0;     // of sums: the last term with an effect; 0: the final one has
  bool overflowed = false;
};
ErrorParts error_of(const RoundedReduction& reduction);

}  // namespace ridgeline

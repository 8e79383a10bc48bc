// Emulated arithmetic: known sums, single roundings, and errors that are the sum of their parts.
#include "studies/precision/arithmetic.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/float16.h"

namespace ridgeline::precision_study_test {
namespace {

using enum FloatFormat;

ErrorParts repeated(FloatFormat values, FloatFormat accumulator) {
  return error_of({.op = ReducedOp::repeated, .values = values, .accumulator = accumulator});
}

// What the four programs of the assignment print.
TEST(PrecisionArithmetic, RepeatedAdditionsGiveWhatPyTorchPrints) {
  EXPECT_FLOAT_EQ(static_cast<float>(repeated(fp32, fp32).result), 10.0001335f);
  EXPECT_EQ(repeated(fp16, fp16).result, 9.953125);
  EXPECT_FLOAT_EQ(static_cast<float>(repeated(fp16, fp32).result), 10.0021362f);
  EXPECT_NEAR(repeated(fp64, fp64).result, 9.999999999999831, 1e-15);
}

TEST(PrecisionArithmetic, RepeatedAdditionsAgreeWithTheMachinesOwn) {
  float sum = 0;
  uint16_t half = 0;
  for (int i = 0; i < 1000; ++i) {
    sum += 0.01f;
    half = float_to_bf16(bf16_to_float(half) + bf16_to_float(float_to_bf16(0.01f)));
  }
  EXPECT_EQ(repeated(fp32, fp32).result, sum);
  EXPECT_EQ(repeated(bf16, bf16).result, bf16_to_float(half));
}

TEST(PrecisionArithmetic, ErrorsOfSumsAreTheSumOfTheirParts) {
  for (const ReducedOp op : {ReducedOp::repeated, ReducedOp::sum, ReducedOp::dot})
    for (const FloatFormatInfo& values : kFloatFormats)
      for (const FloatFormatInfo& accumulator : kFloatFormats) {
        const ErrorParts parts = error_of(
            {.op = op, .values = values.format, .accumulator = accumulator.format, .length = 300});
        EXPECT_NEAR(parts.total, parts.representation + parts.accumulation,
                    1e-12 * std::abs(parts.total) + 1e-18)
            << info(op).name << values.name << accumulator.name;
      }
}

TEST(PrecisionArithmetic, AWideSumLeavesOnlyTheRepresentation) {
  const ErrorParts parts = repeated(fp16, fp32);
  EXPECT_NEAR(parts.representation, rounded(0.01, fp16) / 0.01 - 1, 1e-12);
  EXPECT_EQ(parts.accumulation, 0);
}

TEST(PrecisionArithmetic, ANarrowSumStopsGrowing) {
  const ErrorParts parts = repeated(bf16, bf16);
  EXPECT_EQ(parts.result, 4);
  EXPECT_EQ(parts.stalled_at, 350);
  EXPECT_EQ(repeated(fp32, fp32).stalled_at, 0);
}

// 1 + 2^-11 lies half way between two fp16 numbers; a little more must round up, although fp32
// cannot hold that little.
TEST(PrecisionArithmetic, ValuesAreRoundedOnce) {
  EXPECT_EQ(rounded(1 + 0x1p-11, fp16), 1);
  EXPECT_EQ(rounded(1 + 0x1p-11 + 0x1p-40, fp16), 1 + 0x1p-10);
  EXPECT_EQ(rounded(1 + 0x1p-8 + 0x1p-40, bf16), 1 + 0x1p-7);
  EXPECT_EQ(RoundingArithmetic(fp16).add(1 + 0x1p-11, 0x1p-80), 1 + 0x1p-10);
  EXPECT_EQ(rounded(65520, fp16), std::numeric_limits<double>::infinity());
}

TEST(PrecisionArithmetic, SoftmaxLosesItsMassWithLengthInNarrowSumsOnly) {
  const auto total = [](FloatFormat accumulator, int64_t length) {
    return error_of({.op = ReducedOp::softmax,
                     .values = bf16,
                     .accumulator = accumulator,
                     .length = length})
        .total;
  };
  EXPECT_GT(total(bf16, 8192), 20 * total(bf16, 64));
  EXPECT_LT(total(fp32, 8192), 2 * total(fp32, 64));
}

TEST(PrecisionArithmetic, NormsOverflowInFp16AndLoseDigitsInBf16) {
  for (const ReducedOp op : {ReducedOp::rms_norm, ReducedOp::layer_norm}) {
    const auto norm = [&](FloatFormat values, FloatFormat accumulator, double magnitude) {
      return error_of({.op = op,
                       .values = values,
                       .accumulator = accumulator,
                       .length = 4096,
                       .magnitude = magnitude});
    };
    const ErrorParts large = norm(fp16, fp16, 1000);
    EXPECT_TRUE(large.overflowed);
    EXPECT_EQ(large.result, 0);
    EXPECT_GT(large.total, 1);
    EXPECT_FALSE(norm(bf16, bf16, 1000).overflowed);
    EXPECT_GT(norm(bf16, bf16, 1000).total, 0.5);
    EXPECT_LT(norm(fp16, fp32, 1000).total, 0.005);
    EXPECT_LT(norm(fp32, fp32, 1).total, 1e-4);
  }
}

TEST(PrecisionArithmetic, ANormThatIsNoNumberHasNoFiniteError) {
  const ErrorParts parts = error_of({.op = ReducedOp::layer_norm,
                                     .values = fp16,
                                     .accumulator = fp16,
                                     .length = 32768,
                                     .magnitude = 1000});
  EXPECT_TRUE(parts.overflowed);
  EXPECT_FALSE(std::isfinite(parts.total));
}

}  // namespace
}  // namespace ridgeline::precision_study_test

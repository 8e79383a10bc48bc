// Bounds of fp32 arithmetic: wide enough for every rounding, and no wider than a few.
#include "kernels/reference/bounded.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ridgeline::bounded_test {
namespace {

constexpr double kSingle = info(DType::f32).epsilon;

TEST(Bounded, SumsInAnyOrderStayWithinTheirBound) {
  std::mt19937_64 random(1);
  for (const size_t count : {1u, 2u, 16u, 300u, 5000u})
    for (const double mean : {0.0, 1.0}) {
      std::vector<float> terms;
      for (size_t i = 0; i < count; ++i)
        terms.push_back(static_cast<float>(std::normal_distribution<double>(mean)(random)));
      BoundedSum sum;
      double magnitude = 0;
      for (float term : terms) {
        sum.add({term, 0});
        magnitude += std::abs(term);
      }
      float forwards = 0, backwards = 0;
      for (float term : terms) forwards += term;
      for (size_t i = count; i-- > 0;) backwards += terms[i];
      EXPECT_LE(error_share(forwards, sum.total()), 1) << count;
      EXPECT_LE(error_share(backwards, sum.total()), 1) << count;
      EXPECT_LE(sum.total().error,
                kSingle * (2 + std::sqrt(static_cast<double>(count)) / 2) * magnitude * 1.0001);
    }
}

// Tensor cores add 16 products at a time to a sum, and cut off what does not fit into fp32.
TEST(Bounded, SumsThatAreCutOffDriftAllInOneDirection) {
  constexpr int kTerms = 4096, kAtOnce = 16;
  std::mt19937 random(5);
  std::uniform_real_distribution<double> positive(1, 2);
  BoundedSum sum;
  float got = 0;
  for (int step = 0; step < kTerms / kAtOnce; ++step) {
    double exact = got;
    for (int i = 0; i < kAtOnce; ++i) {
      const double term = positive(random);
      sum.add({term, 0});
      exact += term;
    }
    got = static_cast<float>(exact);
    if (got > exact) got = std::nextafter(got, 0.0f);
  }
  EXPECT_GT(error_share(got, sum.total()), 1) << "rounding explains less";
  const double share = error_share(got, sum.total(kTerms / kAtOnce));
  EXPECT_LE(share, 1);
  EXPECT_GT(share, 0.1) << "and the bound is not far away";
}

TEST(Bounded, FunctionsInFp32StayWithinTheirBound) {
  std::mt19937_64 random(2);
  struct Function {
    Op op;
    float (*single)(float);
    double least, most;
  };
  const auto sigmoid = [](float x) { return 1 / (1 + std::exp(-x)); };
  const auto silu = [](float x) { return x / (1 + std::exp(-x)); };
  const auto gelu_tanh = [](float x) {
    return 0.5f * x * (1 + std::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
  };
  for (const Function& function : {Function{Op::exp, std::exp, -60, 60},
                                   {Op::log, std::log, 1e-6, 1e6},
                                   {Op::sqrt, std::sqrt, 0, 1e6},
                                   {Op::rsqrt, [](float x) { return 1 / std::sqrt(x); }, 1e-6, 1e6},
                                   {Op::sin, std::sin, -50, 50},
                                   {Op::cos, std::cos, -50, 50},
                                   {Op::tanh, std::tanh, -9, 9},
                                   {Op::sigmoid, sigmoid, -30, 30},
                                   {Op::silu, silu, -30, 30},
                                   {Op::gelu_tanh, gelu_tanh, -30, 30}})
    for (int i = 0; i < 2000; ++i) {
      const auto x = static_cast<float>(
          std::uniform_real_distribution<double>(function.least, function.most)(random));
      // Exact, and off by a rounding.
      EXPECT_LE(error_share(function.single(x), apply(function.op, {{x, 0}})), 1)
          << info(function.op).name << ' ' << x;
      const Bounded near = stored({x, 0}, DType::f32);
      const float moved = std::nextafter(x, static_cast<float>(function.most));
      EXPECT_LE(error_share(function.single(moved), apply(function.op, {near})), 1)
          << info(function.op).name << ' ' << x;
      const Bounded result = apply(function.op, {{x, 0}});
      EXPECT_LE(result.error, kSingle * (1 + 64 * std::max(std::abs(result.value), 1.0)));
    }
}

// A difference of what is almost equal keeps the errors of its terms.
TEST(Bounded, ErrorsOfTermsThatCancelStay) {
  const Bounded third = stored({1.0 / 3, 0}, DType::f32);
  const Bounded nothing = apply(Op::subtract, {third, {1.0 / 3, 0}});
  EXPECT_GE(nothing.error, third.error);
  EXPECT_LE(nothing.error, 1.1 * third.error + 1e-30);
  EXPECT_LE(error_share(static_cast<float>(1.0 / 3) - 1.0 / 3, nothing), 1);
  EXPECT_GT(error_share(1e-6, nothing), 1);
}

TEST(Bounded, SixteenBitsMayBeRoundedButNotCutOff) {
  std::mt19937_64 random(4);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    int cut_off = 0;
    for (int i = 0; i < 2000; ++i) {
      const double x = std::normal_distribution<double>()(random);
      const double step = info(dtype).epsilon * std::exp2(std::floor(std::log2(std::abs(x))));
      const Bounded bounded = stored({x, 0}, dtype);
      EXPECT_LE(error_share(std::round(x / step) * step, bounded), 1);
      EXPECT_GT(error_share(x + 1.01 * step, bounded), 1) << x;
      cut_off += error_share(std::trunc(x / step) * step, bounded) > 1 ? 1 : 0;
    }
    EXPECT_GT(cut_off, 400);
  }
}

// So many that hardly any two are at their largest.
TEST(Bounded, IndependentRoundingsOfManyTermsAddUpAsSquares) {
  BoundedSum few, many;
  for (int i = 0; i < 2; ++i) few.add({1, 0}, 0.25);
  for (int i = 0; i < 10000; ++i) many.add({0, 0}, 0.25);
  EXPECT_NEAR(few.total().error, 0.5, 1e-5);
  EXPECT_NEAR(many.total().error, 2.5 * 0.25 * 100, 1e-5);
}

TEST(Bounded, AnUncertainChoiceMayGoEitherWay) {
  const Bounded a{1, 1e-7};
  const Bounded less = apply(Op::less, {a, {1 + 1e-8, 0}});
  const Bounded chosen = apply(Op::where, {less, {5, 0}, {3, 0}});
  EXPECT_LE(error_share(3, chosen), 1);
  EXPECT_LE(error_share(5, chosen), 1);
  EXPECT_GT(error_share(9, chosen), 1);
  EXPECT_EQ(apply(Op::less, {{1, 0}, {2, 0}}).error, 0);
}

TEST(Bounded, WhatIsNotANumberIsNeverRight) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(error_share(nan, {1, 1})));
  EXPECT_TRUE(std::isnan(error_share(nan, {1, infinity})));
  EXPECT_EQ(error_share(nan, {nan, 0}), 0);
  EXPECT_EQ(error_share(1, {nan, 0}), infinity);
  EXPECT_EQ(error_share(-infinity, {-infinity, 0}), 0);
  EXPECT_GT(error_share(1e30, {-infinity, 0}), 1);
}

}  // namespace
}  // namespace ridgeline::bounded_test

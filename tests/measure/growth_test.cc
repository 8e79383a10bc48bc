// Growth at the end of a curve: exponents with their intervals, and where fixed costs dominate.
#include "measure/growth.h"
#include "support/expect.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace ridgeline {
namespace {

std::vector<double> doublings(double first, int count) {
  std::vector<double> sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(std::ldexp(first, i));
  return sizes;
}

// a + b x^p, without noise.
std::vector<Observation> curve(const std::vector<double>& sizes, double a, double b, double p) {
  std::vector<Observation> out;
  for (const double x : sizes) out.push_back(exactly(x, a + b * std::pow(x, p)));
  return out;
}

std::string said(const std::vector<Observation>& of) {
  const auto growth = growth_at_end(of);
  return growth ? in_words({&*growth, 1}, "S") : "";
}

// The slope of one line through all observations.
double one_fit(const std::vector<Observation>& of) {
  double mean_x = 0, mean_y = 0, covariance = 0, variance = 0;
  const auto n = static_cast<double>(of.size());
  for (const Observation& o : of) {
    mean_x += std::log(o.x) / n;
    mean_y += std::log(o.y) / n;
  }
  for (const Observation& o : of) {
    covariance += (std::log(o.x) - mean_x) * (std::log(o.y) - mean_y);
    variance += (std::log(o.x) - mean_x) * (std::log(o.x) - mean_x);
  }
  return covariance / variance;
}

TEST(Growth, IsTheSlopeOverTheLastTwoDoublings) {
  const auto growth = growth_at_end(curve({256, 1024, 4096}, 0, 1e-6, 1.7));
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->exponent, 1.7, 1e-12);
  EXPECT_EQ(growth->from, 1024);
  EXPECT_EQ(growth->to, 4096);
  EXPECT_EQ(growth_at_end(curve({256, 300, 512, 4096, 5000}, 0, 1, 1))->from, 512);
}

TEST(Growth, LessThanTwoDoublingsSayNothing) {
  EXPECT_FALSE(growth_at_end({}));
  EXPECT_FALSE(growth_at_end(curve({256}, 0, 1, 2)));
  EXPECT_FALSE(growth_at_end(curve({256, 300, 400, 512, 1000}, 0, 1, 2)));
  EXPECT_TRUE(growth_at_end(curve({256, 1024}, 0, 1, 2)));
}

TEST(Growth, LeavesOutWhatHasNoLogarithm) {
  std::vector<Observation> points = curve({1, 2, 4}, 0, 1, 2);
  for (const auto& [x, y] : {std::pair(8.0, 0.0), {16.0, NAN}, {0.0, 3.0}, {32.0, INFINITY}})
    points.push_back(exactly(x, y));
  EXPECT_NEAR(growth_at_end(points)->exponent, 2, 1e-12);
}

// The shape of flash forward on an H200: launches dominate up to 1024, the square of S beyond.
TEST(Growth, LaunchesAreNotPartOfTheLaw) {
  const std::vector<Observation> flash = curve(doublings(128, 8), 0.012, 1.03e-9, 2);
  EXPECT_LT(one_fit(flash), 1.1) << "the average holds nowhere";
  const std::string text = said(flash);
  EXPECT_HAS(text, "S^1.65");
  EXPECT_HAS(text, "from S 4096 to 16384 and still rising there");
  EXPECT_HAS(text, "up to S 1024 the part that does not grow decides");
  EXPECT_LACKS(text, "close to");
}

// The shape of torch.sdpa's memory on an H200: a workspace, and a number of bytes per position.
TEST(Growth, AWorkspaceIsNotPartOfTheLaw) {
  const double workspace = 8.5 * (1 << 20);
  const std::vector<Observation> sdpa = curve(doublings(128, 10), workspace, 2048, 1);
  EXPECT_LT(one_fit(sdpa), 0.6);
  const std::string text = said(sdpa);
  EXPECT_HAS(text, "S^0.88");
  EXPECT_HAS(text, "up to S 2048 the part that does not grow decides");
  EXPECT_NEAR(fixed_part(sdpa).value_or(0), workspace, 1);
}

TEST(Growth, RoundExponentsAreNamedOnlyWhereNoOtherIsPossible) {
  EXPECT_EQ(said(curve({256, 1024, 4096}, 0, 1, 2)),
            "S^2.00, close to quadratic, from S 1024 to 4096");
  EXPECT_EQ(said(curve({256, 1024, 4096}, 0, 1, 1)),
            "S^1.00, close to linear, from S 1024 to 4096");
  EXPECT_EQ(said(curve({256, 1024, 4096}, 0, 1, 1.5)), "S^1.50, from S 1024 to 4096");
  std::vector<Observation> loose = curve({256, 1024, 4096}, 0, 1, 2);
  for (Observation& o : loose) o.low = 0.8 * o.y, o.high = 1.25 * o.y;
  EXPECT_EQ(said(loose), "S^2.00 (1.68 to 2.32 within-run), from S 1024 to 4096");
}

TEST(Growth, WithoutEnoughSamplesThereIsNoInterval) {
  std::vector<Observation> few;
  for (const double x : {256.0, 1024.0})
    few.push_back(median_at(x, summarize(std::vector<double>(kMinIntervalSamples - 1, x))));
  EXPECT_EQ(said(few), "S^1.00 (too few samples for an interval), from S 256 to 1024");
  few.clear();
  for (const double x : {256.0, 1024.0})
    few.push_back(median_at(x, summarize(std::vector<double>(kMinIntervalSamples, x))));
  EXPECT_EQ(said(few), "S^1.00, close to linear, from S 256 to 1024") << "no sample differs";
}

TEST(Growth, MediansOfRunsAreToldAsSuch) {
  std::vector<Observation> runs;
  for (const double x : {256.0, 1024.0})
    runs.push_back(median_at(x, summarize(std::vector{x, x, x, x, x, 1.1 * x, 1.1 * x}), true));
  EXPECT_EQ(said(runs), "S^1.00 (0.93 to 1.07 between runs), close to linear, from S 256 to 1024");
  runs.clear();
  for (const double x : {256.0, 1024.0})
    runs.push_back(median_at(x, summarize(std::vector{x, x, x}), true));
  EXPECT_EQ(said(runs), "S^1.00 (too few runs for an interval), from S 256 to 1024");
}

TEST(Growth, SeveralCurvesHaveOneRange) {
  std::vector<Growth> growths = {*growth_at_end(curve({256, 1024}, 0, 1, 1.5)),
                                 *growth_at_end(curve({256, 1024}, 0, 1, 1.9))};
  EXPECT_EQ(in_words(growths, "S"), "S^1.50 to S^1.90 in 2 settings, from S 256 to 1024");
  growths[1].to = 4096;
  growths[1].fixed_until = 128;
  EXPECT_EQ(in_words(growths, "S"),
            "S^1.50 to S^1.90 in 2 settings, each over its last two doublings or more; up to S 128 "
            "the part that does not grow decides in 1 of them");
  growths[0].rising = true;
  EXPECT_HAS(in_words(growths, "S"), ", in 1 of them still rising there;");
  growths[0].fixed_until = 512;
  const std::string all = in_words(growths, "S");
  EXPECT_HAS(all, "up to S 128 to 512 the part that does not grow decides");
  EXPECT_FALSE(all.ends_with("of them")) << all;
}

// For random curves and noise, the exponent lies in its interval, the interval covers the true
// slope as often as promised, and a part that is called fixed is more than half.
TEST(Growth, ClaimsHoldForNoisyCurves) {
  std::mt19937_64 random(20260115);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  constexpr int kTrials = 600;
  int held = 0, named = 0, wrongly_named = 0, fixed = 0, wrongly_fixed = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double p = uniform(0.5, 2.5), b = 1e-6, end = 16384;
    const double a = b * std::pow(end, p) * std::exp(uniform(-9, 1));
    const double noise = std::exp(uniform(-7, -1.5));
    const auto count = static_cast<size_t>(uniform(1, 40));
    std::vector<Observation> points;
    const auto truth = [&](double x) { return a + b * std::pow(x, p); };
    for (const double x : doublings(128, 8)) {
      std::vector<double> samples;
      for (size_t i = 0; i < count; ++i)  // a long tail, with the truth as its median
        samples.push_back(truth(x) * std::exp(std::normal_distribution<double>(0, noise)(random)));
      points.push_back(median_at(x, summarize(samples)));
    }
    const auto growth = growth_at_end(points);
    ASSERT_TRUE(growth);
    ASSERT_LE(growth->low, growth->exponent);
    ASSERT_GE(growth->high, growth->exponent);
    const double slope = std::log(truth(end) / truth(end / 4)) / std::log(4);
    held += growth->low <= slope && slope <= growth->high;

    const std::string text = in_words({&*growth, 1}, "S");
    double told = 0, low = 0, high = 0;
    if (std::sscanf(text.c_str(), "S^%lf (%lf to %lf within-run)", &told, &low, &high) == 3)
      ASSERT_TRUE(low <= told && told <= high) << text;
    else
      ASSERT_LT(count, size_t{kMinIntervalSamples}) << text;
    for (const auto& [words, exponent] : {std::pair("quadratic", 2.0), {"linear", 1.0}})
      if (text.find(words) != text.npos) {
        ++named;
        wrongly_named += std::abs(slope - exponent) > 0.2;
      }
    if (growth->fixed_until) {
      ++fixed;
      wrongly_fixed += a < b * std::pow(*growth->fixed_until, p);
    }
  }
  EXPECT_GE(held, kTrials * 9 / 10);  // from two intervals of 95 %
  EXPECT_GT(named, 20);
  EXPECT_LE(wrongly_named, named / 10);
  EXPECT_GT(fixed, 20);
  EXPECT_LE(wrongly_fixed, fixed / 10);
}

TEST(FixedPart, IsFoundInSumsOfTheUsualTerms) {
  const auto sum = [](double c0, double c1, double c2) {
    std::vector<Observation> out;
    for (const double x : doublings(128, 6)) out.push_back(exactly(x, c0 + c1 * x + c2 * x * x));
    return fixed_part(out);
  };
  EXPECT_NEAR(*sum(1e6, 100, 0), 1e6, 1);
  EXPECT_NEAR(*sum(1e6, 100, 3), 1e6, 10);
  EXPECT_NEAR(*sum(1e6, 0, 3), 1e6, 1);
  EXPECT_EQ(*sum(0, 100, 0), 0);
  EXPECT_EQ(*sum(0, 100, 3), 0);
  EXPECT_NEAR(*sum(5, 0, 0), 5, 1e-9);
}

TEST(FixedPart, IsNotClaimedWithoutAValueToSpareOrForAnotherLaw) {
  EXPECT_FALSE(fixed_part(curve({128, 256}, 1e6, 100, 1))) << "a line goes through any two";
  EXPECT_FALSE(fixed_part({}));
  EXPECT_FALSE(fixed_part(curve(doublings(128, 8), 0, 1, 3)));
  std::vector<Observation> jumps = curve(doublings(128, 6), 0, 100, 1);
  jumps[2].y *= 1.4;
  EXPECT_FALSE(fixed_part(jumps));
}

}  // namespace
}  // namespace ridgeline

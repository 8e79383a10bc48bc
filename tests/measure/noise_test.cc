#include "measure/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

std::vector<std::vector<Record>> runs_with(const std::vector<double>& medians) {
  std::vector<std::vector<Record>> out;
  for (const double ms : medians) {
    Record record = attention_record({});
    record.series = {series_of("forward", std::vector<double>(8, ms))};
    out.push_back({record});
  }
  return out;
}

TEST(MeasuredNoise, BoundsHowFarTwoRunsLieApart) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  constexpr double kDeviation = 0.03;
  const auto draw = [&] { return std::exp(kDeviation * normal(random)); };
  int below = 0;
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    std::vector<double> medians(20);
    for (double& median : medians) median = draw();
    const auto noise = measured_noise(runs_with(medians));
    ASSERT_EQ(noise.size(), 1u);
    EXPECT_EQ(noise[0].runs, 20);
    // 99 % of differences of two runs are within 2.576 of their standard deviations.
    below += noise[0].fraction < std::expm1(2.576 * std::sqrt(2.0) * kDeviation);
  }
  EXPECT_LE(below, 0.1 * kTries) << "an upper bound, with a confidence of 95 %";
}

TEST(MeasuredNoise, IsNeverNothing) {
  const auto noise = measured_noise(runs_with(std::vector<double>(20, 1.0)));
  ASSERT_EQ(noise.size(), 1u);
  EXPECT_GT(noise[0].fraction, 0);
}

TEST(MeasuredNoise, NeedsEnoughRuns) {
  EXPECT_TRUE(measured_noise(runs_with(std::vector<double>(kFewestFloorRuns - 1, 1.0))).empty());
  EXPECT_FALSE(measured_noise(runs_with(std::vector<double>(kFewestFloorRuns, 1.0))).empty());
}

}  // namespace
}  // namespace ridgeline

#include "measure/rank_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Tables of the signed-rank statistic: for ten pairs, 8 is the largest value with a two-sided
// probability of at most 5 %, so the interval runs from the 9th average to the 9th from above.
TEST(PairedShift, AgreesWithTheTablesOfSignedRanks) {
  std::vector<double> differences;  // alternating, so that neighbours are not alike
  for (const double d : {1, 10, 2, 9, 3, 8, 4, 7, 5, 6}) differences.push_back(d);
  std::vector<double> averages;
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = 0; j <= i; ++j) averages.push_back((differences[i] + differences[j]) / 2);
  std::sort(averages.begin(), averages.end());
  const Shift shift = paired_shift(differences, 0.95);
  EXPECT_EQ(shift.estimate, 5.5);
  EXPECT_EQ(shift.low, averages[8]);
  EXPECT_EQ(shift.high, averages[averages.size() - 9]);
}

// For five against five figures, a rank sum statistic of 2 has 2 x 4 / 252 = 3.2 %, 3 has 5.6 %.
TEST(UnpairedShift, AgreesWithTheTablesOfRankSums) {
  const std::vector<double> base = {1, 4, 2, 5, 3}, next = {13, 10, 14, 11, 12};
  std::vector<double> differences;
  for (const double b : base)
    for (const double n : next) differences.push_back(n - b);
  std::sort(differences.begin(), differences.end());
  const Shift shift = unpaired_shift(base, next, 0.95);
  EXPECT_EQ(shift.estimate, 9);
  EXPECT_EQ(shift.low, differences[2]);
  EXPECT_EQ(shift.high, differences[differences.size() - 3]);
}

TEST(Shifts, TooFewFiguresPromiseNothing) {
  EXPECT_EQ(paired_shift(std::vector<double>{1, 2, 3, 4, 5, 6}, 0.99).high, kInfinity);
  EXPECT_LT(paired_shift(std::vector<double>{1, 9, 2, 8, 3, 7, 4, 6}, 0.99).high, kInfinity);
  EXPECT_EQ(unpaired_shift(std::vector<double>{1, 2, 3}, std::vector<double>{1, 2, 3}, 0.99).low,
            -kInfinity);
}

TEST(Shifts, TheIntervalHoldsAsOftenAsItSays) {
  std::mt19937 random(42);
  // Heavy tails on one side, as timings have them.
  std::lognormal_distribution<double> noise(0, 1);
  for (const double confidence : {0.9, 0.99}) {
    constexpr int kRounds = 2000;
    int paired_misses = 0, unpaired_misses = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> differences, base, next;
      for (int i = 0; i < 20; ++i) {
        differences.push_back(3 + noise(random) - noise(random));
        base.push_back(noise(random));
        next.push_back(3 + noise(random));
      }
      const Shift paired = paired_shift(differences, confidence);
      const Shift unpaired = unpaired_shift(base, next, confidence);
      paired_misses += paired.low > 3 || paired.high < 3;
      unpaired_misses += unpaired.low > 3 || unpaired.high < 3;
    }
    const double allowed = kRounds * (1 - confidence);
    EXPECT_LE(paired_misses, allowed + 3 * std::sqrt(allowed));
    EXPECT_LE(unpaired_misses, allowed + 3 * std::sqrt(allowed));
    EXPECT_GE(paired_misses, allowed / 8);  // an interval of everything would be no interval
    EXPECT_GE(unpaired_misses, allowed / 8);
  }
}

// Samples that drift together tell less than their number: without widening this misses often.
TEST(Shifts, AutocorrelatedSamplesKeepTheirPromiseNearly) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  int misses = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const auto run = [&] {
      std::vector<double> samples;
      double state = 0;
      for (int i = 0; i < 200; ++i)
        samples.push_back(state = 0.9 * state + std::sqrt(1 - 0.81) * normal(random));
      return samples;
    };
    const Shift shift = unpaired_shift(run(), run(), 0.95);
    misses += shift.low > 0 || shift.high < 0;
  }
  EXPECT_LE(misses, 0.07 * kRounds);
}

TEST(Shifts, MovingOneSideMovesTheEstimate) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> base, next;
  for (int i = 0; i < 100; ++i) {
    base.push_back(normal(random));
    next.push_back(base.back() + 5);
  }
  EXPECT_NEAR(unpaired_shift(base, next, 0.99).estimate, 5, 1e-12);
  const Shift forth = unpaired_shift(base, next, 0.99), back = unpaired_shift(next, base, 0.99);
  EXPECT_NEAR(forth.low, -back.high, 1e-12);
}

TEST(Shifts, AnOutlierWeighsLittle) {
  std::vector<double> differences(24, 0.0);
  for (size_t i = 0; i < differences.size(); ++i) differences[i] = i % 2 ? 0.01 : -0.01;
  differences[5] = 1e6;
  const Shift shift = paired_shift(differences, 0.99);
  EXPECT_LE(shift.high, 0.011);
}

TEST(BatchMedians, AreEvenAndInOrder) {
  const std::vector<double> samples = {1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(batch_medians(samples, 3), (std::vector<double>{1.5, 3.5, 6}));
  EXPECT_EQ(batch_medians(samples, 100), samples);
}

TEST(Autocorrelation, SeesTrendsAndConstants) {
  std::vector<double> trend, alternating;
  for (int i = 0; i < 24; ++i) {
    trend.push_back(i);
    alternating.push_back(i % 2);
  }
  EXPECT_GT(autocorrelation(trend), 0.8);
  EXPECT_LT(autocorrelation(alternating), -0.8);
  EXPECT_EQ(autocorrelation(std::vector<double>(24, 1.0)), 0);
}

TEST(Shifts, FiguresThatAreNoNumbersAreOurFault) {
  EXPECT_ERROR(paired_shift(std::vector<double>{}, 0.9), ErrorKind::internal, "no figures");
  EXPECT_ERROR(paired_shift(std::vector<double>{1, NAN}, 0.9), ErrorKind::internal, "number");
}

}  // namespace
}  // namespace ridgeline

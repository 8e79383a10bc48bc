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

// In tables of the signed-rank statistic for ten pairs, 8 is the largest value with a two-sided
// p-value of at most 5 %, so that the interval is from the 9th smallest average to the 9th largest.
TEST(PairedShift, AgreesWithTheTablesOfSignedRanks) {
  std::vector<double> differences;  // alternating, so that adjacent ones differ
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

TEST(Shifts, ATimeOfZeroCountsAsANanosecond) {
  EXPECT_EQ(log_ms(0), log_ms(1e-6));
  EXPECT_EQ(log_ms(1), 0);
}

TEST(Shifts, TooFewFiguresPromiseNothing) {
  EXPECT_EQ(paired_shift(std::vector<double>{1, 2, 3, 4, 5, 6}, 0.99).high, kInfinity);
  EXPECT_LT(paired_shift(std::vector<double>{1, 9, 2, 8, 3, 7, 4, 6}, 0.99).high, kInfinity);
}

TEST(Shifts, TheIntervalHoldsAsOftenAsItSays) {
  std::mt19937 random(42);
  // One-sided heavy tails, like those of timings.
  std::lognormal_distribution<double> noise(0, 1);
  for (const double confidence : {0.9, 0.99}) {
    constexpr int kRounds = 2000;
    int misses = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> differences;
      for (int i = 0; i < 20; ++i) differences.push_back(3 + noise(random) - noise(random));
      const Shift shift = paired_shift(differences, confidence);
      misses += shift.low > 3 || shift.high < 3;
    }
    const double allowed = kRounds * (1 - confidence);
    EXPECT_LE(misses, allowed + 3 * std::sqrt(allowed));
    EXPECT_GE(misses, allowed / 8);  // an unbounded interval would be useless
  }
}

TEST(Shifts, AnOutlierWeighsLittle) {
  std::vector<double> differences(24, 0.0);
  for (size_t i = 0; i < differences.size(); ++i) differences[i] = i % 2 ? 0.01 : -0.01;
  differences[5] = 1e6;
  const Shift shift = paired_shift(differences, 0.99);
  EXPECT_LE(shift.high, 0.011);
}

TEST(Shifts, FiguresThatAreNoNumbersAreOurFault) {
  EXPECT_ERROR(paired_shift(std::vector<double>{}, 0.9), ErrorKind::internal, "no figures");
  EXPECT_ERROR(paired_shift(std::vector<double>{1, NAN}, 0.9), ErrorKind::internal, "number");
}

}  // namespace
}  // namespace ridgeline

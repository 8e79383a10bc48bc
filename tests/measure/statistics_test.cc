#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

TEST(Statistics, MatchValuesComputedByHand) {
  const std::vector<double> samples = {4, 1, 3, 2, 10};  // sorted: 1 2 3 4 10
  const Statistics s = summarize(samples);
  EXPECT_EQ(s.count, 5);
  EXPECT_DOUBLE_EQ(s.median_ms, 3);
  EXPECT_DOUBLE_EQ(s.mean_ms, 4);
  EXPECT_DOUBLE_EQ(s.std_ms, std::sqrt((9 + 4 + 1 + 0 + 36) / 4.0));
  EXPECT_DOUBLE_EQ(s.min_ms, 1);
  EXPECT_DOUBLE_EQ(s.max_ms, 10);
  EXPECT_DOUBLE_EQ(s.iqr_ms, 4 - 2);
  EXPECT_DOUBLE_EQ(s.p95_ms, 4 + 0.8 * 6);   // rank 3.8
  EXPECT_DOUBLE_EQ(s.p99_ms, 4 + 0.96 * 6);  // rank 3.96
}

TEST(Statistics, MedianOfAnEvenCountIsTheMiddle) {
  EXPECT_DOUBLE_EQ(summarize(std::vector<double>{4, 1, 2, 8}).median_ms, 3);
}

TEST(Statistics, OneSampleHasNoSpreadAndNoConfidence) {
  const Statistics s = summarize(std::vector<double>{7});
  EXPECT_EQ(s.median_ms, 7);
  EXPECT_EQ(s.p99_ms, 7);
  EXPECT_EQ(s.iqr_ms, 0);
  EXPECT_TRUE(std::isnan(s.std_ms));
  EXPECT_EQ(s.median_coverage, 0);
  EXPECT_EQ(relative_half_width(s), std::numeric_limits<double>::infinity());
}

TEST(Statistics, TwoSamplesEncloseTheMedianHalfTheTime) {
  const Statistics s = summarize(std::vector<double>{1, 3});
  EXPECT_EQ(s.median_ms, 2);
  EXPECT_DOUBLE_EQ(s.std_ms, std::sqrt(2.0));
  EXPECT_EQ(s.median_low_ms, 1);
  EXPECT_EQ(s.median_high_ms, 3);
  EXPECT_DOUBLE_EQ(s.median_coverage, 0.5);
}

struct TabulatedInterval {
  int n;
  int low;  // rank counted from 1, as in printed tables
  double coverage;
};

// The classic table of ranks for the median, e.g. Conover, Practical Nonparametric Statistics.
TEST(Statistics, MedianIntervalHasTheTabulatedRanks) {
  for (const auto& [n, low, coverage] :
       {TabulatedInterval{5, 1, 0.9375}, TabulatedInterval{6, 1, 0.96875},
        TabulatedInterval{9, 2, 0.9609}, TabulatedInterval{10, 2, 0.9785},
        TabulatedInterval{20, 6, 0.9586}, TabulatedInterval{100, 40, 0.9648}}) {
    std::vector<double> ranks;
    for (int i = 1; i <= n; ++i) ranks.push_back(i);
    const Statistics s = summarize(ranks);
    EXPECT_EQ(s.median_low_ms, low) << n;
    EXPECT_EQ(s.median_high_ms, n + 1 - low) << n;
    EXPECT_NEAR(s.median_coverage, coverage, 5e-5) << n;
  }
}

TEST(Statistics, TheFewestSamplesAreThoseThatGiveAnInterval) {
  for (int n = 1; n <= 10; ++n) {
    const Statistics s = summarize(std::vector<double>(static_cast<size_t>(n), 1.0));
    EXPECT_EQ(std::isfinite(relative_half_width(s)), n >= kMinIntervalSamples) << n;
  }
  EXPECT_EQ(samples_for_median(0.99), 8);
  EXPECT_EQ(samples_for_median(0.5), 2);
}

TEST(Statistics, MedianIntervalOfManySamplesStaysExact) {
  std::vector<double> ranks(20'001);
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<double>(i);
  const Statistics s = summarize(ranks);
  EXPECT_NEAR(s.median_high_ms - s.median_low_ms, 1.96 * std::sqrt(20'001.0), 3);
  EXPECT_NEAR(s.median_coverage, 0.95, 0.002);
}

TEST(Statistics, MedianIntervalCoversTheTrueMedianOfASkewedDistribution) {
  std::mt19937_64 random(42);
  std::lognormal_distribution<double> skewed(0, 1.5);  // its median is 1
  constexpr int kTrials = 4000;
  for (const size_t n : {6, 15, 40, 101}) {
    int covered = 0;
    double promised = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> samples(n);
      for (double& sample : samples) sample = skewed(random);
      const Statistics s = summarize(samples);
      covered += s.median_low_ms <= 1 && 1 <= s.median_high_ms;
      promised = s.median_coverage;
    }
    // Three and a half standard errors of a proportion over the trials.
    EXPECT_NEAR(covered / double{kTrials}, promised, 3.5 * std::sqrt(0.05 * 0.95 / kTrials)) << n;
    EXPECT_GE(promised, 0.95) << n;
  }
}

TEST(Statistics, RelativeHalfWidthIsThatOfTheInterval) {
  const Statistics s = summarize(std::vector<double>{90, 95, 100, 100, 105, 110});
  EXPECT_DOUBLE_EQ(relative_half_width(s), 0.1);
}

TEST(Statistics, RefuseWhatIsNotATime) {
  EXPECT_ERROR(summarize({}), ErrorKind::internal, "no samples");
  EXPECT_ERROR(summarize(std::vector<double>{1, NAN}), ErrorKind::internal, "nan");
}

}  // namespace
}  // namespace ridgeline

#include "measure/noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record run_of(const std::vector<double>& samples) {
  Record record = attention_record({});
  record.series = {series_of("forward", samples)};
  return record;
}

Interleaved turns_of(const std::vector<double>& log_ratios) {
  PairedRow row{.base = run_of({1}), .next = run_of({1}), .phases = {}};
  row.phase("forward").log_ratios = log_ratios;
  return {.rows = {row}};
}

TEST(MeasuredNoise, IsTheMostThatComparisonsDifferedBeyondTheirIntervals) {
  const std::vector<Interleaved> in_turns = {turns_of(std::vector(20, 0.01)),
                                             turns_of(std::vector(20, -0.03))};
  const std::vector<std::vector<Record>> alone = {{run_of(std::vector(40, 1.0))},
                                                  {run_of(std::vector(40, 1.2))}};
  const auto noise = measured_noise(in_turns, alone);
  ASSERT_EQ(noise.size(), 2u);
  EXPECT_EQ(noise[0].pairing, Pairing::interleaved);
  EXPECT_EQ(noise[0].comparisons, 2);
  EXPECT_NEAR(noise[0].fraction, std::expm1(0.03), 1e-9);
  EXPECT_EQ(noise[1].pairing, Pairing::separate);
  EXPECT_EQ(noise[1].comparisons, 1);
  EXPECT_NEAR(noise[1].fraction, 0.2, 1e-9);
}

// An endless interval stays away from nothing by nothing, which is not a floor of 0 %.
TEST(MeasuredNoise, TooFewRoundsOrSamplesTellNothing) {
  for (int count = 1; count < kFirstLook; ++count)
    for (const MeasuredNoise& noise :
         measured_noise({{turns_of(std::vector(static_cast<size_t>(count), 0.5))}}, {}))
      EXPECT_EQ(noise.comparisons, 0) << count << " rounds";
  const std::vector<std::vector<Record>> alone(2, {run_of({1, 1.1, 1.2})});
  for (const MeasuredNoise& noise : measured_noise({}, alone)) EXPECT_EQ(noise.comparisons, 0);
  const auto mixed =
      measured_noise({{turns_of(std::vector(kFirstLook, 0.02)), turns_of({0.5})}}, {});
  ASSERT_EQ(mixed.size(), 1u);
  EXPECT_EQ(mixed[0].comparisons, 1);
  EXPECT_NEAR(mixed[0].fraction, std::expm1(0.02), 1e-9);
}

}  // namespace
}  // namespace ridgeline

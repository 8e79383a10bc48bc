// Verdicts on sides whose processors had different speeds.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "measure/comparisons.h"
#include "measure/gate.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

// Two virtual processors that share a core: no steal time, no other process, but slower threads.
Record at_speed(double ms, double factor) {
  Record record = measured(around(ms));
  for (auto* look : {&record.speed_before, &record.speed_after}) (*look)->together_gflops /= factor;
  return record;
}

TEST(SingleRuns, ProcessorsThatWereNotAsFastGiveNoVerdict) {
  const Record free = at_speed(1, 1), shared = at_speed(1.9, 1.9);
  EXPECT_EQ(compared(free, shared).verdict, Verdict::unclear);
  EXPECT_EQ(compared(free, shared).note,
            "threads together computed 1.9x slower beside the new side");
  EXPECT_EQ(compared(shared, free).note, "threads together computed 1.9x slower beside the base");
  EXPECT_EQ(compared(free, shared, floor_of(0.08)).verdict, Verdict::unclear)
      << "a floor does not know it either";
  EXPECT_EQ(compared(free, at_speed(2, 1)).verdict, Verdict::slower) << "twice the work";
  EXPECT_EQ(compared(shared, at_speed(3.8, 1.9)).verdict, Verdict::slower) << "both as slow";
}

TEST(SingleRuns, ProcessorsThatChangedDuringARowGiveNoVerdict) {
  const Record free = at_speed(1, 1);
  Record changed = at_speed(2, 1);
  changed.speed_after->together_gflops /= 1.9;
  EXPECT_EQ(compared(free, changed).verdict, Verdict::unclear);
  EXPECT_EQ(compared(free, changed).note,
            "threads together computed 1.9x slower after the samples of the new side");
  std::swap(changed.speed_before, changed.speed_after);
  EXPECT_EQ(compared(changed, free).note,
            "threads together computed 1.9x slower before the samples of the base");
}

TEST(SingleRuns, OldRecordsThatDoNotTellTheSpeedOfTheProcessorsGiveNoVerdict) {
  Record old = at_speed(1, 1);
  old.speed_before.reset();
  EXPECT_EQ(compared(old, at_speed(2, 1)).verdict, Verdict::slower) << "a look after is enough";
  old.speed_after.reset();
  EXPECT_EQ(compared(old, at_speed(2, 1)).verdict, Verdict::unclear);
  EXPECT_EQ(compared(old, at_speed(2, 1)).note,
            "the base does not say how fast its processors were");
}

TEST(SingleRuns, OfAGpuItsClockTells) {
  const auto on_gpu = [](double ms, double mhz) {
    Record record = measured(around(ms));
    record.device = "cuda";
    record.speed_before.reset();
    record.speed_after.reset();
    record.device_before = DeviceState{.clock_mhz = 345};  // idle
    record.device_after = DeviceState{.clock_mhz = mhz};
    return record;
  };
  EXPECT_EQ(compared(on_gpu(1, 1980), on_gpu(2, 1950)).verdict, Verdict::slower);
  const RowComparison throttled = compared(on_gpu(1, 1980), on_gpu(2, 1005));
  EXPECT_EQ(throttled.verdict, Verdict::unclear);
  EXPECT_EQ(throttled.note,
            "the GPU's clock was 1980 MHz beside the base and 1005 MHz beside the new side");
  Record silent = on_gpu(2, 0);
  silent.device_after.reset();
  EXPECT_EQ(compared(on_gpu(1, 1980), silent).verdict, Verdict::slower) << "nothing tells";
}

// Two single runs get a verdict if and only if their speeds are alike.
TEST(SingleRuns, AVerdictNeedsSpeedsWithinTheStatedFactor) {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> log_factor(-1, 1), log_time(0.6, 2);
  int judged = 0;
  for (int i = 0; i < 300; ++i) {
    double most = 1;
    const auto side = [&](double ms) {
      Record record = measured(around(ms));
      const double factor = std::exp(log_factor(random) * (i % 3 == 0 ? 0.1 : 1));
      for (auto* look : {&record.speed_before, &record.speed_after})
        for (const auto rate : {&ProcessorSpeed::alone_gflops, &ProcessorSpeed::together_gflops,
                                &ProcessorSpeed::memory_gb_per_s})
          (**look).*rate *= factor;
      return std::pair(record, factor);
    };
    const auto [base, base_factor] = side(1);
    const auto [next, next_factor] = side(std::exp(log_time(random)));
    most = std::max(base_factor / next_factor, next_factor / base_factor);
    const RowComparison row = compared(base, next);
    EXPECT_EQ(row.verdict, most > kSpeedApart ? Verdict::unclear : Verdict::slower) << most;
    EXPECT_EQ(row.in_doubt, most > kSpeedApart);
    judged += row.judged();
  }
  EXPECT_GT(judged, 50);
  EXPECT_LT(judged, 250);
}

void slow_down(Record& run) {
  run.speed_after->together_gflops /= 1.9;
}

TEST(SeveralRuns, OneOnSlowerProcessorsIsLeftOutWhereEnoughOthersAreThere) {
  auto base = runs_at({1.00, 1.01, 1.90, 1.02, 1.00});
  const auto next = runs_at({1.25, 1.26, 1.24, 1.27, 1.25});
  EXPECT_EQ(compared(base, next).verdict, Verdict::unclear);
  slow_down(base[2]);
  EXPECT_EQ(compared(base, next).verdict, Verdict::slower);
  EXPECT_EQ(compared(base, next).base_runs, 4);
}

// Disturbed runs do not define the usual speed, even if most runs are disturbed.
TEST(SeveralRuns, DisturbedOnesDoNotDecideWhatSpeedIsUsual) {
  auto base = runs_at({1.00, 1.01, 1.00, 1.90, 1.91, 1.92, 1.93});
  for (size_t i = 3; i < base.size(); ++i) {
    slow_down(base[i]);
    base[i].disturbance->other_cores = 1;
  }
  const std::vector<Record> merged = runs_merged(base);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].merged_runs, 3);
  EXPECT_NEAR(merged[0].series[0].statistics.median_ms, 1, 0.02);
}

TEST(SeveralRuns, SidesWhoseProcessorsWereNotAsFastGiveNoVerdict) {
  const auto base = runs_at({1.00, 1.01, 0.99, 1.02, 1.00});
  auto next = runs_at({1.90, 1.91, 1.89, 1.92, 1.90});
  EXPECT_EQ(compared(base, next).verdict, Verdict::slower);
  for (Record& run : next) slow_down(run);
  EXPECT_EQ(compared(base, next).verdict, Verdict::unclear);
  EXPECT_EQ(compared(base, next).note, "threads together computed 1.9x slower beside the new side");
  // If most runs are slow, the quick one is left out.
  next[0] = runs_at({1.00})[0];
  next[0].run = 1;
  EXPECT_EQ(compared(base, next).new_runs, 4);
  EXPECT_EQ(compared(base, next).verdict, Verdict::unclear);
}

TEST(SeveralRuns, OfOldRecordsTheirSpreadDecidesAlone) {
  auto base = runs_at({1.00, 1.01, 0.99, 1.02, 1.00});
  auto next = runs_at({1.25, 1.26, 1.24, 1.27, 1.25});
  for (auto* side : {&base, &next})
    for (Record& run : *side) {
      run.speed_before.reset();
      run.speed_after.reset();
    }
  EXPECT_EQ(compared(base, next).verdict, Verdict::slower);
}

// The machine changes between two states that last for seconds. The measured speed identifies the
// state of a run: equal binaries rarely get a verdict, more work does.
TEST(SeveralRuns, OnProcessorsThatShareACoreNowAndThenAreRarelyWrong) {
  std::mt19937 random(13);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  bool shared = false;
  const auto run = [&](double ms, int number) {
    if (uniform(random) < 0.15) shared = !shared;
    const double factor = shared ? 1.9 : 1;
    Record record = measured(around(ms * factor * std::exp(0.03 * normal(random))));
    for (auto* look : {&record.speed_before, &record.speed_after})
      (*look)->together_gflops /= factor * std::exp(0.02 * normal(random));
    record.run = number;
    return record;
  };
  const auto side = [&](double ms) {
    std::vector<Record> runs;
    for (int number = 1; number <= 5; ++number) runs.push_back(run(ms, number));
    return runs;
  };
  constexpr int kTries = 500;
  int wrong_single = 0, wrong = 0, slower = 0, judged = 0;
  for (int i = 0; i < kTries; ++i) {
    wrong_single += is_wrong(compared(run(2, 0), run(2, 0)));
    wrong += is_wrong(compared(side(2), side(2)));
    const RowComparison more = compared(side(2), side(2.6));
    slower += more.verdict == Verdict::slower;
    judged += !more.in_doubt;
  }
  EXPECT_LE(wrong_single, 0.01 * kTries);
  EXPECT_LE(wrong, 0.01 * kTries);
  EXPECT_GE(slower, 0.5 * kTries) << "of " << judged;
}

TEST(Gates, TheGeometricMeanIsUndecidedWhereTheMachineMayHaveMadeTheDifference) {
  const Record free = at_speed(1, 1), shared = at_speed(1.9, 1.9);
  const GateResult result =
      judge(parse_gate("geomean:1%"), compare_records({&free, 1}, {&shared, 1}, {}));
  EXPECT_TRUE(result.failures.empty());
  ASSERT_EQ(result.undecided.size(), 1u);
  EXPECT_HAS(result.undecided[0], "1.9x slower");
}

}  // namespace
}  // namespace ridgeline

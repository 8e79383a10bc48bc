// Verdicts in the words of a report are those of `ridgeline compare`.
#include "report/verdicts.h"

#include <gtest/gtest.h>

#include <random>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record row(const std::string& implementation, double forward_ms) {
  return attention_record({.implementation = implementation, .forward_ms = forward_ms});
}

TEST(Verdicts, AreThoseOfTheEngineOnTheSamePair) {
  std::mt19937_64 random(42);
  for (const double ratio : {0.5, 0.9, 0.97, 1.0, 1.03, 1.1, 2.0}) {
    Record base = row("naive", 1), next = row("flash", 1);
    for (const auto& [record, ms] : {std::pair(&base, 10.0), {&next, 10 * ratio}}) {
      std::normal_distribution<double> noise(ms, 0.02 * ms);
      std::vector<double> samples(20);
      for (double& sample : samples) sample = noise(random);
      record->series = {series_of("forward", samples)};
    }
    const Comparison comparison =
        compare_records({&base, 1}, {&next, 1}, {.implementations = std::pair("naive", "flash")});
    const Judgement judgement = verdict_between(base, next, "forward");
    EXPECT_EQ(judgement.verdict, comparison.rows.at(0).verdict) << ratio;
    EXPECT_EQ(judgement.reason.empty(), judgement.verdict != Verdict::unclear) << ratio;
  }
}

TEST(Verdicts, TooFewSamplesAreNotTooClose) {
  Record base = row("naive", 9.24), next = row("flash", 1);
  next.series[0] = series_of("forward", {1, 1, 1});
  const Judgement judgement = verdict_between(base, next, "forward");
  EXPECT_EQ(judgement.verdict, Verdict::unclear);
  EXPECT_EQ(judgement.reason, "too few samples: 3, and 6 are needed");
}

TEST(Verdicts, AnUnclearOneCarriesTheReasonOfTheEngine) {
  const Record base = row("naive", 0.002), next = row("flash", 0.001);
  const Comparison comparison =
      compare_records({&base, 1}, {&next, 1}, {.implementations = std::pair("naive", "flash")});
  const Judgement judgement = verdict_between(base, next, "forward");
  if (comparison.rows.at(0).verdict == Verdict::unclear) {
    EXPECT_EQ(judgement.reason, comparison.rows.at(0).note);
  }
  Record failed = row("flash", 1);
  failed.status = Status::oom;
  EXPECT_HAS(verdict_between(base, failed, "forward").reason, "OOM");
  EXPECT_EQ(verdict_between(base, next, "no such phase").reason, "not measured on both sides");
}

TEST(Verdicts, AReasonThatNamesBothSidesNamesThemByImplementation) {
  Record base = row("naive", 30), next = row("flash", 10);
  base.device = next.device = "cuda";
  base.device_after = DeviceState{.clock_mhz = 1980};
  next.device_after = DeviceState{.clock_mhz = 1005};
  EXPECT_EQ(verdict_between(base, next, "forward").reason,
            "the GPU's clock was 1980 MHz beside naive and 1005 MHz beside flash");
  next.implementation = "naive";
  EXPECT_EQ(verdict_between(base, next, "forward").reason,
            "the GPU's clock was 1980 MHz beside one of them and 1005 MHz beside the other");
}

TEST(Verdicts, RowsThatCannotBeComparedAreUnclear) {
  const Record base = row("naive", 1);
  Record other = attention_record({.implementation = "flash", .seq_len = 512});
  EXPECT_EQ(verdict_between(base, other, "forward").verdict, Verdict::unclear);
  EXPECT_FALSE(verdict_between(base, other, "forward").reason.empty());
}

TEST(Verdicts, VariantsOfOneImplementationAreCompared) {
  Record single = row("flash", 1), two = row("flash", 3);
  single.settings = {{"threads", 2}, {"backward", "single-pass"}};
  two.settings = {{"threads", 2}, {"backward", "two-pass"}};
  EXPECT_EQ(verdict_between(single, two, "forward").verdict, Verdict::slower);
}

TEST(Verdicts, TheStoredNoiseFloorCounts) {
  const NoiseLookup noise = [](const Record&, std::string_view) {
    return NoiseFloor{5.0, "20 self-comparisons"};
  };
  EXPECT_NE(verdict_between(row("naive", 2), row("flash", 1), "forward", noise).verdict,
            Verdict::faster);
}

TEST(Verdicts, APairIsJudgedOnce) {
  int asked = 0;
  Verdicts verdicts({}, [&](const Record&, std::string_view) {
    ++asked;
    return std::optional(NoiseFloor{0.02, "12 runs"});
  });
  const Record base = row("naive", 2), next = row("flash", 1);
  EXPECT_EQ(verdicts.between(base, next, "forward").verdict, Verdict::faster);
  const int once = asked;
  EXPECT_EQ(verdicts.between(base, next, "forward").verdict, Verdict::faster);
  EXPECT_EQ(asked, once);
  EXPECT_EQ(verdicts.between(next, base, "forward").verdict, Verdict::slower);
}

TEST(Times, WhatTakesLongerIsSlower) {
  EXPECT_EQ(times_text(2.314), "2.31x");
  EXPECT_EQ(times_text(1 / 3.2), "3.20x slower");
  EXPECT_EQ(times_text(1), "1.00x");
  EXPECT_EQ(times_text(0.999), "1.00x") << "not 1.00x slower";
  EXPECT_EQ(times_text(0.9, 3), "1.111x slower");
  EXPECT_EQ(times_as_fast(1.5), "1.50x as fast");
  EXPECT_EQ(times_as_fast(0.5), "2.00x slower");
}

TEST(SpeedupWords, NameTheMeanTheRangeAndWhatIsUndecided) {
  Verdicts verdicts;
  Speedup speedup(verdicts);
  const Record slow = row("naive", 8), fast = row("flash", 2), few = [] {
    Record record = row("flash", 2);
    record.series[0] = series_of("forward", {2, 2});
    return record;
  }();
  speedup.add(&slow, nullptr, "forward", "nowhere");
  EXPECT_EQ(speedup.count(), 0);
  speedup.add(&slow, &fast, "forward", "S 1");
  EXPECT_EQ(speedup.words(), "4.00x as fast (S 1)");
  speedup.add(&fast, &slow, "forward", "S 2");
  EXPECT_EQ(speedup.words(),
            "1.00x as fast (geometric mean over 2 sizes; from 4.00x slower at S 2 to 4.00x as fast "
            "at S 1)");
  speedup.add(&slow, &few, "forward", "S 3");
  EXPECT_TRUE(speedup.mostly_decided());
  EXPECT_HAS(speedup.words(), "over 3 sizes, 1 of them undecided;");
  speedup.add(&slow, &few, "forward", "S 4");
  EXPECT_FALSE(speedup.mostly_decided());
  EXPECT_EQ(
      speedup.words(),
      "undecided at 2 of 4 sizes (by the medians from 4.00x slower at S 2 to 4.00x as fast at "
      "S 1)");
  EXPECT_EQ(speedup.reasons().text(), "too few samples: 2, and 6 are needed");
}

TEST(SpeedupWords, OneUndecidedSizeHasNoResult) {
  Verdicts verdicts;
  Speedup speedup(verdicts);
  Record slow = row("naive", 8), same = row("flash", 8.01);
  slow.merged_runs = same.merged_runs = 7;
  speedup.add(&slow, &same, "forward", "S 1");
  EXPECT_EQ(speedup.words(), "as fast (1.00x, S 1)");
  slow.merged_runs = 0;
  Speedup unknown(verdicts);
  Record few = row("flash", 1);
  few.series[0] = series_of("forward", {1});
  unknown.add(&slow, &few, "forward", "S 1");
  EXPECT_EQ(unknown.words(), "undecided (8.00x as fast by the medians, S 1)");
}

TEST(Reasons, TheMostFrequentComesFirst) {
  Reasons reasons;
  EXPECT_TRUE(reasons.empty());
  for (const char* reason : {"a", "b", "b", "c"}) reasons.add(reason);
  EXPECT_EQ(reasons.text(), "b; a; 1 more reason");
  EXPECT_EQ(reasons.all(), "b (2); a (1); c (1)") << "what is not told there is listed";
  Reasons more;
  for (const char* reason : {"c", "c", "d", "e"}) more.add(reason);
  reasons.add(more);
  EXPECT_EQ(reasons.text(), "c; b; 3 more reasons");
}

}  // namespace
}  // namespace ridgeline

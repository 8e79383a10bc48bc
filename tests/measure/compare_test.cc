#include "measure/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "measure/comparisons.h"
#include "measure/gate.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

// Timings of a shared machine: a floor, jitter, drift that adjacent samples share, and bursts of
// other work.
class NoisyMachine {
 public:
  explicit NoisyMachine(unsigned seed) : random_(seed) {}

  double sample(double ms) {
    drift_ = 0.98 * drift_ + 0.01 * normal_(random_);
    if (uniform_(random_) < 0.05) busy_ = 8;  // other work lasts for so many samples
    const double taken = busy_-- > 0 ? uniform_(random_) * 2 : 0;
    return ms * std::exp(drift_ + 0.01 * std::abs(normal_(random_))) * (1 + taken);
  }

  std::vector<double> run(double ms, int samples) {
    const double layout = 0.004 * normal_(random_);  // effect of the memory layout of a process
    std::vector<double> out;
    for (int i = 0; i < samples; ++i) out.push_back(sample(ms * std::exp(layout)));
    return out;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double drift_ = 0;
  int busy_ = 0;
};

TEST(SingleRuns, AreToldApartOnlyBeyondTheStatedSpread) {
  NoisyMachine machine(7);
  int wrong = 0, slower = 0;
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    wrong += is_wrong(compared(measured(machine.run(1, 200)), measured(machine.run(1, 200))));
    slower += compared(measured(around(0.05)), measured(around(0.1))).verdict == Verdict::slower;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(slower, kTries) << "sub-millisecond rows included";
  const RowComparison close = compared(measured(around(1)), measured(around(1.3)));
  EXPECT_EQ(close.verdict, Verdict::unclear);
  EXPECT_EQ(close.evidence, Evidence::single);
  EXPECT_EQ(close.note, "differences below 50 % cannot be seen");
  EXPECT_NEAR(close.visible(), kSingleSpread, 1e-12);
}

TEST(SingleRuns, ABusyOrUnknownMachineGivesNoVerdict) {
  const Record slow = measured(around(10)), quick = measured(around(2));
  EXPECT_EQ(compared(slow, quick).verdict, Verdict::faster);
  Record busy = quick, unknown = quick;
  busy.disturbance = Disturbance{.window_s = 1, .processors = 2, .other_cores = 1.2};
  unknown.disturbance.reset();
  EXPECT_EQ(compared(slow, busy).verdict, Verdict::unclear);
  EXPECT_EQ(compared(slow, busy).note,
            "other processes used 1.2 of 2 processors beside the new side");
  EXPECT_EQ(compared(unknown, slow).verdict, Verdict::unclear);
  EXPECT_HAS(compared(unknown, slow).note, "does not say");
  // The load average is ignored: successive runs of this program raise it.
  Record loaded = quick;
  loaded.machine.load_average = 8;
  EXPECT_EQ(compared(slow, loaded).verdict, Verdict::faster);
}

TEST(SingleRuns, SamplesThatOverlapGiveNoVerdict) {
  std::vector<double> two_modes = around(1);
  for (size_t i = 0; i < two_modes.size() / 4; ++i) two_modes[i] = 3;
  const RowComparison row = compared(measured(two_modes), measured(around(3)));
  EXPECT_EQ(row.verdict, Verdict::unclear);
  EXPECT_EQ(row.note, "samples of the two runs overlap");
}

// One side is sometimes slower: its quickest samples equal those of the other side, its median does
// not, and the printed speedup is that of the medians.
TEST(SidesApart, TwoModesAreMarked) {
  std::vector<double> sometimes = around(1);
  for (size_t i = 0; i < sometimes.size() * 2 / 3; ++i) sometimes[i] = 1.8;
  const RowComparison marked = compared(measured(around(1)), measured(sometimes));
  EXPECT_TRUE(marked.two_modes);
  EXPECT_NEAR(marked.speedup(), marked.base_ms / marked.new_ms, 1e-12);
  EXPECT_NEAR(marked.new_ms, 1.8, 1e-12);
  EXPECT_FALSE(compared(measured(around(1)), measured(around(1.8))).two_modes);

  const auto steady = runs_at({1.00, 1.01, 0.99, 1.02, 1.00});
  EXPECT_TRUE(compared(steady, runs_at({1.00, 1.60, 1.59, 1.61, 1.60})).two_modes);
  EXPECT_FALSE(compared(steady, runs_at({1.60, 1.60, 1.59, 1.61, 1.60})).two_modes);
}

TEST(SingleRuns, AFloorOfThatVeryRowTakesThePlaceOfTheSpread) {
  const Record base = measured(around(1)), slower = measured(around(1.2));
  const RowComparison judged = compared(base, slower, floor_of(0.08));
  EXPECT_EQ(judged.verdict, Verdict::slower);
  EXPECT_EQ(judged.evidence, Evidence::floor);
  const RowComparison wide = compared(base, slower, floor_of(0.75));
  EXPECT_EQ(wide.verdict, Verdict::unclear) << "not SAME";
  EXPECT_EQ(wide.note, "differences below 75 % cannot be seen");
  EXPECT_EQ(compared(base, slower,
                     [](const Record&, std::string_view) { return std::optional<NoiseFloor>(); })
                .verdict,
            Verdict::unclear)
      << "no floor of this row is no floor";
}

TEST(SeveralRuns, TheirOwnSpreadDecides) {
  const auto base = runs_at({1.00, 1.01, 0.99, 1.02, 1.00});
  const RowComparison slower = compared(base, runs_at({1.25, 1.26, 1.24, 1.27, 1.25}));
  EXPECT_EQ(slower.verdict, Verdict::slower);
  EXPECT_EQ(slower.evidence, Evidence::runs);
  EXPECT_EQ(slower.base_runs, 5);
  EXPECT_NEAR(slower.speedup(), slower.base_ms / slower.new_ms, 1e-12);
  const RowComparison same = compared(base, runs_at({1.01, 1.00, 1.01, 0.99, 1.00}));
  EXPECT_EQ(same.verdict, Verdict::same);
  const RowComparison noisy = compared(base, runs_at({0.9, 1.6, 1.1, 2.0, 1.3}));
  EXPECT_EQ(noisy.verdict, Verdict::unclear);
  EXPECT_GT(noisy.visible(), 0.3);
}

TEST(SeveralRuns, ANoiseFloorIsNotAskedFor) {
  const auto base = runs_at({1.00, 1.01, 0.99, 1.02, 1.00});
  const auto next = runs_at({1.25, 1.26, 1.24, 1.27, 1.25});
  EXPECT_EQ(compared(base, next, floor_of(5)).verdict, Verdict::slower);
}

TEST(SeveralRuns, OfOneBinaryAreRarelyToldApart) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  int wrong = 0, slower = 0;
  constexpr int kTries = 500;
  const auto side = [&](double ms) {
    std::vector<double> medians;
    for (int i = 0; i < 5; ++i) medians.push_back(ms * std::exp(0.03 * normal(random)));
    return runs_at(medians);
  };
  for (int i = 0; i < kTries; ++i) {
    wrong += is_wrong(compared(side(2), side(2)));
    slower += compared(side(2), side(2.5)).verdict == Verdict::slower;
  }
  EXPECT_LE(wrong, 0.01 * kTries);
  EXPECT_GE(slower, 0.95 * kTries);
}

// A binary takes another code path in some processes: its mean is poorly known, but all its runs
// are slower than all runs of the other.
TEST(SeveralRuns, SidesThatDoNotOverlapAreToldApartWhateverTheirSpread) {
  const auto steady = runs_at({0.86, 0.85, 0.85, 0.87, 0.86});
  auto two_paths = runs_at({1.18, 2.31, 1.17, 2.30, 1.18});
  const RowComparison apart = compared(steady, two_paths);
  EXPECT_EQ(apart.verdict, Verdict::slower);
  EXPECT_TRUE(apart.two_modes);
  EXPECT_EQ(compared(two_paths, steady).verdict, Verdict::faster);
  EXPECT_LT(apart.speedup_low(), apart.speedup());
  EXPECT_GT(apart.speedup_high(), apart.speedup());
  EXPECT_EQ(compared(steady, runs_at({0.86, 2.31, 1.17, 2.30, 1.18})).verdict, Verdict::unclear);
  EXPECT_EQ(compared(runs_at({0.86, 0.85, 0.85}), two_paths).verdict, Verdict::unclear)
      << "three and five runs do not overlap by chance too often";
  for (Record& run : two_paths) run.disturbance->other_cores = 1.5;
  EXPECT_EQ(compared(steady, two_paths).verdict, Verdict::unclear)
      << "runs beside other work resemble their neighbours";
}

TEST(SeveralRuns, ADisturbedOneIsLeftOutWhereEnoughOthersAreThere) {
  auto base = runs_at({1.00, 1.01, 3.00, 1.02, 1.00});
  const auto next = runs_at({1.25, 1.26, 1.24, 1.27, 1.25});
  EXPECT_EQ(compared(base, next).verdict, Verdict::unclear);
  base[2].disturbance->other_cores = 1.5;
  EXPECT_EQ(compared(base, next).verdict, Verdict::slower);
  EXPECT_EQ(compared(base, next).base_runs, 4);
}

TEST(SeveralRuns, AFurtherSingleRunIsARowOfItsOwn) {
  auto records = runs_at({1.0, 1.0, 1.0});
  records.push_back(measured(around(4)));
  EXPECT_EQ(runs_merged(records).size(), 2u);
  EXPECT_EQ(runs_merged(records)[0].merged_runs, 3);
  EXPECT_EQ(runs_merged(records)[1].merged_runs, 0);
  EXPECT_NEAR(compared(records, records).base_ms, 4, 0.01) << "the later one counts";
}

TEST(CompareRecords, AFileComparedWithItselfIsSame) {
  NoisyMachine machine(5);
  const Record single = measured(machine.run(0.01, 50));
  EXPECT_EQ(compared(single, single).verdict, Verdict::same);
  const auto runs = runs_at({1.0, 2.0, 0.5, 1.7});
  EXPECT_EQ(compared(runs, runs).verdict, Verdict::same);
}

// All rows of a run share its drift, so that a mean over rows is as uncertain as one row.
TEST(Gates, TheGeometricMeanDoesNotFailOnNoise) {
  NoisyMachine machine(11);
  int wrong = 0, found = 0;
  constexpr int kTries = 100;
  const auto run_of = [&](double ms) {
    std::vector<Record> rows;
    for (int row = 0; row < 4; ++row) {
      rows.push_back(measured(machine.run(ms, 200)));
      rows.back().workload["seq_len"] = 256 + row;
    }
    return rows;
  };
  const auto fails = [](const std::vector<Record>& base, const std::vector<Record>& next) {
    return !judge(parse_gate("geomean:1%"), compare_records(base, next, {})).failures.empty();
  };
  for (int i = 0; i < kTries; ++i) {
    wrong += fails(run_of(2), run_of(2));
    found += fails(run_of(2), run_of(4));
  }
  EXPECT_LE(wrong, 0.02 * kTries);
  EXPECT_GE(found, 0.95 * kTries);
}

// A row measured on both sides, with this interval.
RowComparison row_with(Shift log_time, double tolerance = 0.01) {
  RowComparison row;
  row.log_time = log_time;
  row.verdict = decide(log_time, tolerance, tolerance);
  return row;
}

TEST(Gates, ARegressionFailsAndWhatCouldHideOneIsUndecided) {
  const Gate gate = parse_gate("slower:3%");
  const auto judged = [&](Shift log_time) {
    return judge(gate, {.rows = {row_with(log_time)}, .tolerance = 0.01});
  };
  const auto passes = [&](Shift log_time) {
    const GateResult result = judged(log_time);
    return result.failures.empty() && result.undecided.empty();
  };
  EXPECT_TRUE(passes({0, -0.02, 0.02}));
  EXPECT_TRUE(passes({0.02, 0.015, 0.025})) << "SLOWER, but by less than the limit";
  EXPECT_TRUE(passes({-0.3, -0.4, -0.2}));
  EXPECT_EQ(judged({0.05, 0.03, 0.07}).failures.size(), 1u);
  EXPECT_EQ(judged({0.05, 0, 0.1}).undecided.size(), 1u) << "5 % may be there";
  EXPECT_EQ(judged({0, -0.1, 0.1}).undecided.size(), 1u) << "10 % may be there";
  EXPECT_EQ(judged({0, -INFINITY, INFINITY}).undecided.size(), 1u);
  EXPECT_HAS(judged({0, -0.1, 0.1}).undecided[0], "a slowdown of up to 11 % cannot be ruled out")
      << "which is no limit of what would have been seen";
}

TEST(Gates, SamplingGoesOnUntilTheyAreDecided) {
  const Gate gate = parse_gate("slower:3%");
  EXPECT_FALSE(is_decided(gate, row_with({0.05, 0, 0.1}), 0.01));
  EXPECT_FALSE(is_decided(gate, row_with({0, -0.009, 0.035}), 0.01));
  EXPECT_TRUE(is_decided(gate, row_with({0, -0.02, 0.02}), 0.01));
  EXPECT_TRUE(is_decided(gate, row_with({0.05, 0.03, 0.07}), 0.01));
}

TEST(Gates, TheGeometricMeanMustBeBeyondTheLimitWithItsWholeInterval) {
  Comparison comparison{.rows = {row_with({0.08, -0.02, 0.18}), row_with({0.06, 0.04, 0.08})},
                        .tolerance = 0.005};
  ASSERT_TRUE(comparison.mean_log_time());
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->estimate, 0.07);
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->low, 0.01);
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->high, 0.13);
  EXPECT_FALSE(judge(parse_gate("geomean:1%"), comparison).failures.empty());
  EXPECT_TRUE(judge(parse_gate("geomean:20%"), comparison).failures.empty());
  EXPECT_TRUE(judge(parse_gate("geomean:20%"), comparison).undecided.empty());
  EXPECT_FALSE(judge(parse_gate("geomean:10%"), comparison).undecided.empty());
}

TEST(Decide, AnIntervalBeyondTheToleranceInsideTheBandOrNeither) {
  EXPECT_EQ(decide({0.05, 0.03, 0.07}, 0.02, 0.02), Verdict::slower);
  EXPECT_EQ(decide({-0.05, -0.07, -0.03}, 0.02, 0.02), Verdict::faster);
  EXPECT_EQ(decide({0.005, -0.01, 0.015}, 0.02, 0.02), Verdict::same);
  EXPECT_EQ(decide({0.05, 0.01, 0.09}, 0.02, 0.02), Verdict::unclear);
  EXPECT_EQ(decide({0.05, 0.01, 0.09}, 0.02, 0.1), Verdict::same);
  EXPECT_EQ(decide({0, -INFINITY, INFINITY}, 0.02, 0.02), Verdict::unclear);
}

TEST(Confidence, AllRowsTogetherHoldWith95Percent) {
  EXPECT_EQ(confidence_for(0), 0.99);
  EXPECT_EQ(confidence_for(5), 0.99);
  EXPECT_DOUBLE_EQ(confidence_for(100), 0.9995);
  EXPECT_DOUBLE_EQ(confidence_for(1, 5), 0.998);
}

TEST(CompareRecords, SpeedupImprovementAndGeometricMean) {
  const Record base = measured(around(2)), twice = measured(around(1));
  const Comparison comparison = compare_records({&base, 1}, {&twice, 1}, {});
  ASSERT_EQ(comparison.rows.size(), 1u);
  const RowComparison& row = comparison.rows[0];
  EXPECT_NEAR(row.speedup(), 2, 0.01);
  EXPECT_LE(row.speedup_low(), row.speedup());
  EXPECT_GE(row.speedup_high(), row.speedup());
  EXPECT_NEAR(row.improvement_percent(), 50, 0.5);
  EXPECT_EQ(row.verdict, Verdict::faster);
  EXPECT_NEAR(std::exp(-comparison.mean_log_time()->estimate), 2, 0.01);
}

TEST(CompareInterleaved, ShortAndDisturbedSidesInTurnsKeepTheirVerdict) {
  PairedRow row{measured(around(0.05)), measured(around(0.06)), {}};
  for (Record* record : {&row.base, &row.next}) record->disturbance->other_cores = 2;
  PairedPhase& phase = row.phase("forward");
  phase.base_ms = around(0.05);
  phase.new_ms = around(0.06);
  for (int i = 0; i < 20; ++i) phase.log_ratios.push_back(std::log(1.2) + 0.001 * (i % 5));
  const Comparison comparison = compare_interleaved({row}, {});
  EXPECT_EQ(comparison.rows.at(0).verdict, Verdict::slower);
  EXPECT_TRUE(comparison.rows[0].judged());
}

TEST(CompareRecords, OtherMachinesAndSettingsAreRefusedUnlessForced) {
  const Record base = measured(around(1));
  Record elsewhere = base, threads = base;
  elsewhere.machine.fingerprint = "another";
  threads.settings["threads"] = 2;
  EXPECT_ERROR(compare_records({&base, 1}, {&elsewhere, 1}, {}), ErrorKind::usage,
               "different machines");
  EXPECT_ERROR(compare_records({&base, 1}, {&threads, 1}, {}), ErrorKind::usage,
               "threads none against 2");
  for (const Record* other : {&elsewhere, &threads}) {
    const Comparison forced = compare_records({&base, 1}, {other, 1}, {.force = true});
    EXPECT_EQ(forced.rows.size(), 1u);
    EXPECT_FALSE(forced.notes.empty());
  }
}

TEST(CompareRecords, RowsThatDifferInAnAxisAreNeverPaired) {
  Record base = measured(around(1));
  base.settings["mode"] = "cold";
  Record next = base;
  next.settings["mode"] = "hot";
  const auto compared = [&](const StudyAxes& axes) {
    return compare_records({&base, 1}, {&next, 1}, {.axes = axes, .force = true});
  };
  EXPECT_EQ(compared({}).rows.size(), 1u) << "a setting like any other";
  EXPECT_EQ(compared({{base.study, {"threads"}}}).rows.size(), 1u) << "another axis";
  EXPECT_ERROR(compared({{base.study, {"mode"}}}), ErrorKind::usage, "no row is in both");
  EXPECT_ERROR(compared({{"", {"mode"}}}), ErrorKind::usage, "no row is in both");
  EXPECT_EQ(compared({{"", {"mode"}}, {base.study, {}}}).rows.size(), 1u)
      << "what is said of a study goes before what is said of the others";
}

TEST(CompareRecords, OtherSettingsMayDifferWhereAnAxisIsTheSame) {
  Record cold = measured(around(1));
  cold.settings["mode"] = "cold";
  Record hot = measured(around(2));
  hot.settings["mode"] = "hot";
  std::vector<Record> base = {cold, hot}, next = {hot, cold};
  for (Record& record : next) record.settings["threads"] = 2;
  const Comparison comparison =
      compare_records(base, next, {.axes = {{cold.study, {"mode"}}}, .force = true});
  ASSERT_EQ(comparison.rows.size(), 2u);
  for (const RowComparison& row : comparison.rows)
    EXPECT_EQ(row.base.settings["mode"], row.next.settings["mode"]);
}

TEST(CompareRecords, RowsThatAreMissingAndTheLaterOfTwo) {
  std::vector<Record> base = {attention_record({.seq_len = 256}),
                              attention_record({.seq_len = 512})};
  std::vector<Record> next = {attention_record({.seq_len = 256, .forward_ms = 9}),
                              attention_record({.seq_len = 256, .forward_ms = 1})};
  const Comparison comparison = compare_records(base, next, {});
  ASSERT_EQ(comparison.rows.size(), 2u);  // forward and backward
  EXPECT_EQ(comparison.rows[0].new_ms, 1);
  ASSERT_EQ(comparison.missing.size(), 1u);
  EXPECT_HAS(comparison.missing[0], "seq_len=512");
  next = {attention_record({.seq_len = 1024})};
  EXPECT_ERROR(compare_records(base, next, {}), ErrorKind::usage, "no row is in both");
}

TEST(CompareRecords, APhaseThatOnlyTheBaseHasIsMissing) {
  const Record base = attention_record({});
  Record next = base;
  next.series.pop_back();
  const Comparison comparison = compare_records({&base, 1}, {&next, 1}, {});
  EXPECT_EQ(comparison.rows.size(), 1u);
  ASSERT_EQ(comparison.missing.size(), 1u);
  EXPECT_HAS(comparison.missing[0], "backward of attention naive");
  EXPECT_FALSE(judge(parse_gate("missing"), comparison).failures.empty());
  // Rows that only the new side has are not missing, nor are rows that failed.
  EXPECT_TRUE(compare_records({&next, 1}, {&base, 1}, {}).missing.empty());
  next.status = Status::wrong;
  EXPECT_TRUE(compare_records({&base, 1}, {&next, 1}, {}).missing.empty());
}

TEST(CompareRecords, TwoImplementationsOfOneFile) {
  std::vector<Record> records = {attention_record({.implementation = "naive", .forward_ms = 2}),
                                 attention_record({.implementation = "flash", .forward_ms = 1})};
  records[1].settings["backward"] = "single-pass";  // a setting that naive does not have
  const Comparison comparison =
      compare_records(records, records, {.implementations = {{"naive", "flash"}}});
  ASSERT_EQ(comparison.rows.size(), 2u);
  EXPECT_NEAR(comparison.rows[0].speedup(), 2, 0.05);
}

TEST(CompareRecords, HostileSamplesAreToldNotTrusted) {
  const Record good = measured(around(1));
  for (const double bad : {std::nan(""), -1.0, static_cast<double>(INFINITY)}) {
    Record record = good;
    record.series[0].samples_ms[3] = bad;
    const Comparison comparison = compare_records({&good, 1}, {&record, 1}, {});
    EXPECT_FALSE(comparison.rows.at(0).verdict);
    EXPECT_HAS(comparison.rows[0].note, "not a valid time");
  }
  Record few = good;
  few.series[0].samples_ms = {1, 1};
  EXPECT_FALSE(compare_records({&good, 1}, {&few, 1}, {}).rows.at(0).verdict);
  Record zeros = good;
  zeros.series[0].samples_ms.assign(24, 0);
  EXPECT_EQ(compared(good, zeros, floor_of(0.05)).verdict, Verdict::faster);
}

TEST(CompareRecords, ARowComparedWithItselfIsTheSameWhateverItsTimes) {
  for (const std::vector<double>& samples : {around(1), {1, 2}, std::vector<double>(24, 0.0)}) {
    const RowComparison row = compared(measured(samples), measured(samples));
    EXPECT_EQ(row.verdict, Verdict::same);
    EXPECT_EQ(row.speedup(), 1);
    EXPECT_EQ(row.evidence, Evidence::single);
  }
  const RowComparison runs = compared(runs_at({1, 1, 2}), runs_at({1, 1, 2}));
  EXPECT_EQ(runs.verdict, Verdict::same);
  EXPECT_EQ(runs.evidence, Evidence::runs);
  EXPECT_EQ(runs.base_runs, 3);
}

TEST(Gates, FailOnWhatTheyNameOnly) {
  const Record base = measured(around(1));
  const Record slow = measured(around(2));
  Record oom = attention_record({.status = Status::oom});
  const Comparison slower = compare_records({&base, 1}, {&slow, 1}, {});
  const auto fails = [](const char* gate, const Comparison& comparison) {
    return !judge(parse_gate(gate), comparison).failures.empty();
  };
  EXPECT_TRUE(fails("slower:3%", slower));
  EXPECT_TRUE(fails("slower", slower));
  EXPECT_FALSE(fails("slower:130%", slower));
  EXPECT_TRUE(fails("geomean:10%", slower));
  EXPECT_FALSE(fails("unclear", slower));
  EXPECT_FALSE(fails("missing", slower));
  const Comparison broken = compare_records({&base, 1}, {&oom, 1}, {});
  for (const char* gate : {"slower:3%", "geomean:1%", "unclear", "missing"})
    EXPECT_TRUE(fails(gate, broken)) << gate;
  Record larger = base, smaller = base;
  larger.memory.peak = Bytes{1100};
  smaller.memory.peak = Bytes{1000};
  const Comparison grown = compare_records({&smaller, 1}, {&larger, 1}, {});
  EXPECT_TRUE(fails("memory:5%", grown));
  EXPECT_FALSE(fails("memory:15%", grown));
}

// A gate without a comparison does not pass.
TEST(Gates, AreUndecidedWhereNothingCouldBeJudged) {
  const Record five = measured(std::vector<double>(5, 1.0));
  Record later = five;
  later.time = "later";
  const Comparison none = compare_records({&five, 1}, {&later, 1}, {});
  for (const char* gate : {"slower:3%", "geomean:1%", "memory:5%"}) {
    const GateResult result = judge(parse_gate(gate), none);
    EXPECT_TRUE(result.failures.empty()) << gate;
    EXPECT_EQ(result.undecided.size(), 1u) << gate;
  }
  EXPECT_FALSE(judge(parse_gate("unclear"), none).failures.empty());
  const GateResult missing = judge(parse_gate("missing"), none);
  EXPECT_TRUE(missing.failures.empty() && missing.undecided.empty());
  // One row with a verdict does not make up for one without.
  std::vector<Record> two = {measured(around(1)), five};
  two[1].workload["seq_len"] = 512;
  std::vector<Record> again = two;
  for (Record& record : again) record.time = "later";
  EXPECT_FALSE(judge(parse_gate("slower:3%"), compare_records(two, again, {})).undecided.empty());
}

TEST(Gates, BadOnesAreRefusedWithTheListOfGoodOnes) {
  for (const char* text : {"", "faster:3%", "slower:3", "slower:-3%", "slower:%", "slower:nan%",
                           "unclear:3%", "slower:3%x"})
    EXPECT_ERROR(parse_gate(text), ErrorKind::usage, "geomean:P%");
  for (const char* text : {"unclear:3%", "missing:3%"})
    EXPECT_ERROR(parse_gate(text), ErrorKind::usage, "expected no limit");
}

}  // namespace
}  // namespace ridgeline

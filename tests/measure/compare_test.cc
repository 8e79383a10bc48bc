#include "measure/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "measure/gate.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

// Timings as a shared machine gives them: a floor, jitter, drift that neighbours share, and other
// work that takes the processor away for a while.
class NoisyMachine {
 public:
  explicit NoisyMachine(unsigned seed) : random_(seed) {}

  double sample(double ms) {
    drift_ = 0.98 * drift_ + 0.01 * normal_(random_);
    if (uniform_(random_) < 0.05) busy_ = 8;  // samples that other work lasts for
    const double taken = busy_-- > 0 ? uniform_(random_) * 2 : 0;
    return ms * std::exp(drift_ + 0.01 * std::abs(normal_(random_))) * (1 + taken);
  }

  std::vector<double> run(double ms, int samples) {
    const double layout = 0.004 * normal_(random_);  // where memory came to lie
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

Record measured(const std::vector<double>& samples) {
  Record record = attention_record({});
  record.series = {series_of("forward", samples)};
  return record;
}

Verdict verdict_apart(const std::vector<double>& base, const std::vector<double>& next,
                      double floor) {
  const Record before = measured(base), after = measured(next);
  const auto noise = [&](const Record&, std::string_view, Pairing) {
    return NoiseFloor{floor, "test"};
  };
  return *compare_records({&before, 1}, {&after, 1}, {.noise = noise}).rows.at(0).verdict;
}

TEST(CompareRecords, RunsApartAreJudgedByTheirFloor) {
  NoisyMachine machine(7);
  int wrong = 0, slower = 0;
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    const Verdict nothing = verdict_apart(machine.run(1, 200), machine.run(1, 200), 0.05);
    wrong += nothing == Verdict::faster || nothing == Verdict::slower;
    slower += verdict_apart(machine.run(1, 200), machine.run(2, 200), 0.05) == Verdict::slower;
  }
  EXPECT_LE(wrong, 0.02 * kTries);
  EXPECT_GE(slower, 0.95 * kTries);
}

// All rows of one run share its drift, so the mean of many is no surer than that of one.
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
    return !failures(parse_gate("geomean:1%"), compare_records(base, next, {})).empty();
  };
  for (int i = 0; i < kTries; ++i) {
    wrong += fails(run_of(2), run_of(2));
    found += fails(run_of(2), run_of(4));
  }
  EXPECT_LE(wrong, 0.02 * kTries);
  EXPECT_GE(found, 0.95 * kTries);
}

TEST(Gates, TheGeometricMeanMustBeBeyondTheLimitAndTheFloorWithItsWholeInterval) {
  Comparison comparison;
  const auto fails = [&](const char* gate) {
    return !failures(parse_gate(gate), comparison).empty();
  };
  const auto add = [&](Shift log_time, Verdict verdict, std::string note) {
    RowComparison row;
    row.log_time = log_time;
    row.verdict = verdict;
    row.noise = {0.01, "test"};
    row.note = std::move(note);
    comparison.rows.push_back(std::move(row));
  };
  add({0.08, -0.02, 0.18}, Verdict::unclear, "");
  add({0.06, 0.04, 0.08}, Verdict::slower, "");
  ASSERT_TRUE(comparison.mean_log_time());
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->estimate, 0.07);
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->low, 0.01);
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->high, 0.13);
  EXPECT_FALSE(fails("geomean:3%"));
  EXPECT_FALSE(fails("geomean:1.1%"));
  EXPECT_TRUE(fails("geomean:1%"));
  comparison.rows[0].noise.fraction = 0.05;
  EXPECT_FALSE(fails("geomean:1%"));
  add({9, 8, 10}, Verdict::unclear, "no verdict that counts");
  EXPECT_DOUBLE_EQ(comparison.mean_log_time()->estimate, 0.07);
}

TEST(Decide, AnIntervalBeyondTheBandInsideItOrNeither) {
  EXPECT_EQ(decide({0.05, 0.03, 0.07}, 0.02), Verdict::slower);
  EXPECT_EQ(decide({-0.05, -0.07, -0.03}, 0.02), Verdict::faster);
  EXPECT_EQ(decide({0.005, -0.01, 0.015}, 0.02), Verdict::same);
  EXPECT_EQ(decide({0.05, 0.01, 0.09}, 0.02), Verdict::unclear);
  EXPECT_EQ(decide({0, -INFINITY, INFINITY}, 0.02), Verdict::unclear);
}

TEST(Confidence, AllRowsTogetherHoldWith95Percent) {
  EXPECT_EQ(confidence_for(0), 0.99);
  EXPECT_EQ(confidence_for(5), 0.99);
  EXPECT_DOUBLE_EQ(confidence_for(100), 0.9995);
  EXPECT_DOUBLE_EQ(confidence_for(1, 5), 0.998);
}

std::vector<double> around(double ms) {
  std::vector<double> out;
  for (int i = 0; i < 24; ++i) out.push_back(ms * (1 + (i % 2 ? 0.001 : -0.001)));
  return out;
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

// Without a stored floor nothing is known of how far two runs of the same lie apart when they are
// short or disturbed.
TEST(CompareRecords, ShortOrDisturbedRunsApartAreUnclearWithoutAStoredFloor) {
  const auto compared = [](const Record& base, const Record& next, const NoiseLookup& noise) {
    return compare_records({&base, 1}, {&next, 1}, {.noise = noise});
  };
  const auto stored = [](const Record&, std::string_view, Pairing) {
    return NoiseFloor{0.05, "10 self-comparisons"};
  };
  const Record slow = measured(around(10)), quick = measured(around(2));
  const Record tiny = measured(around(0.04));
  Record disturbed_slow = slow, disturbed_quick = quick;
  for (Record* record : {&disturbed_slow, &disturbed_quick}) {
    record->machine.load_average = 1.5;
    record->machine.logical_cores = 2;
  }
  EXPECT_EQ(compared(slow, quick, {}).rows[0].verdict, Verdict::faster);
  using Sides = std::pair<const Record*, const Record*>;
  for (const auto& [sides, why] : {std::pair(Sides(&slow, &tiny), "under 1 ms"),
                                   {Sides(&tiny, &slow), "under 1 ms"},
                                   {Sides(&tiny, &tiny), "under 1 ms"},
                                   {Sides(&disturbed_slow, &quick), "other work"},
                                   {Sides(&slow, &disturbed_quick), "other work"}}) {
    const Comparison unclear = compared(*sides.first, *sides.second, {});
    EXPECT_EQ(unclear.rows[0].verdict, Verdict::unclear) << why;
    EXPECT_NE(unclear.rows[0].note.find(why), std::string::npos) << unclear.rows[0].note;
    EXPECT_FALSE(unclear.mean_log_time());
    EXPECT_FALSE(failures(parse_gate("slower:3%"), unclear).empty());
    const Comparison clear = compared(*sides.first, *sides.second, stored);
    EXPECT_NE(clear.rows[0].verdict, Verdict::unclear) << why;
    EXPECT_EQ(clear.rows[0].note, "");
  }
  const Comparison told = compared(disturbed_slow, quick, {});
  EXPECT_TRUE(std::any_of(told.notes.begin(), told.notes.end(), [](const std::string& note) {
    return note.find("beside the base") != std::string::npos;
  }));
}

TEST(CompareInterleaved, ShortAndDisturbedSidesInTurnsKeepTheirVerdict) {
  PairedRow row{measured(around(0.05)), measured(around(0.06)), {}};
  for (Record* record : {&row.base, &row.next}) {
    record->machine.load_average = 1.5;
    record->machine.logical_cores = 2;
  }
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

TEST(CompareRecords, RowsThatAreMissingAndTheLaterOfTwo) {
  std::vector<Record> base = {attention_record({.seq_len = 256}),
                              attention_record({.seq_len = 512})};
  std::vector<Record> next = {attention_record({.seq_len = 256, .forward_ms = 9}),
                              attention_record({.seq_len = 256, .forward_ms = 1})};
  const Comparison comparison = compare_records(base, next, {});
  ASSERT_EQ(comparison.rows.size(), 2u);  // forward and backward
  EXPECT_EQ(comparison.rows[0].new_ms, 1);
  ASSERT_EQ(comparison.missing.size(), 1u);
  EXPECT_NE(comparison.missing[0].find("seq_len=512"), std::string::npos);
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
  EXPECT_NE(comparison.missing[0].find("backward of attention naive"), std::string::npos);
  EXPECT_FALSE(failures(parse_gate("missing"), comparison).empty());
  // What only the new side has is no loss, and a row that failed is told as such.
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
    EXPECT_NE(comparison.rows[0].note.find("no time"), std::string::npos);
  }
  Record few = good;
  few.series[0].samples_ms = {1, 1};
  EXPECT_FALSE(compare_records({&good, 1}, {&few, 1}, {}).rows.at(0).verdict);
  Record zeros = good;
  zeros.series[0].samples_ms.assign(24, 0);
  const auto stored = [](const Record&, std::string_view, Pairing) {
    return NoiseFloor{0.05, "test"};
  };
  EXPECT_EQ(compare_records({&good, 1}, {&zeros, 1}, {.noise = stored}).rows.at(0).verdict,
            Verdict::faster);
}

TEST(Gates, FailOnWhatTheyNameOnly) {
  const Record base = measured(around(1));
  const Record slow = measured(around(1.2));
  Record oom = attention_record({.status = Status::oom});
  const Comparison slower = compare_records({&base, 1}, {&slow, 1}, {});
  const auto fails = [](const char* gate, const Comparison& comparison) {
    return !failures(parse_gate(gate), comparison).empty();
  };
  EXPECT_TRUE(fails("slower:3%", slower));
  EXPECT_TRUE(fails("slower", slower));
  EXPECT_FALSE(fails("slower:30%", slower));
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

// A gate that saw nothing has not been passed.
TEST(Gates, FailWhereNothingCouldBeJudged) {
  const Record five = measured(std::vector<double>(5, 1.0));
  const Comparison none = compare_records({&five, 1}, {&five, 1}, {});
  for (const char* gate : {"slower:3%", "geomean:1%", "memory:5%"}) {
    const std::vector<std::string> why = failures(parse_gate(gate), none);
    ASSERT_EQ(why.size(), 1u) << gate;
    EXPECT_NE(why[0].find("nothing to judge"), std::string::npos) << why[0];
  }
  EXPECT_FALSE(failures(parse_gate("unclear"), none).empty());
  EXPECT_TRUE(failures(parse_gate("missing"), none).empty());
  // Enough samples for a verdict, too few for an interval of so many rows.
  std::vector<Record> many;
  for (int i = 0; i < 20; ++i) many.push_back(attention_record({.seq_len = 256 + i}));
  for (Record& record : many)
    for (Series& series : record.series) series.samples_ms.resize(6);
  EXPECT_FALSE(failures(parse_gate("slower:3%"), compare_records(many, many, {})).empty());
  // One row that can be judged will do, but not for a gate against doubt.
  std::vector<Record> two = {measured(around(1)), five};
  two[1].workload["seq_len"] = 512;
  const Comparison one = compare_records(two, two, {});
  EXPECT_TRUE(failures(parse_gate("slower:3%"), one).empty());
  EXPECT_FALSE(failures(parse_gate("unclear"), one).empty());
}

TEST(Gates, BadOnesAreRefusedWithTheListOfGoodOnes) {
  for (const char* text : {"", "faster:3%", "slower:3", "slower:-3%", "slower:%", "slower:nan%",
                           "unclear:3%", "slower:3%x"})
    EXPECT_ERROR(parse_gate(text), ErrorKind::usage, "geomean:P%");
}

}  // namespace
}  // namespace ridgeline

#include "ridgeline/harness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "jit/cuda_libraries.h"
#include "measure/read_results.h"
#include "measure/record_json.h"
#include "measure/roofline_model.h"
#include "measure/test_support.h"
#include "measure/turns.h"

namespace ridgeline {
namespace {

// Work whose measured times are given.
Callable scripted(std::vector<double> times_ms) {
  auto next = std::make_shared<size_t>(0);
  return {.name = "work",
          .implementation = "scripted",
          .sizes = {{"n", 7}},
          .flops = 1e6,
          .bytes = 2e6,
          .run = [] {},
          .time_ms =
              [next, times_ms](const std::function<void()>& work) {
                work();
                return times_ms[(*next)++ % times_ms.size()];
              }};
}

TEST(Harness, GivesStatisticsRatesAndARecord) {
  const TempDir directory;
  Harness harness(
      {.study = "mine", .results = directory / "new/own.jsonl", .warmups = 2, .iterations = 5});
  const Timing timing = harness.measure(scripted({100, 100, 1, 2, 3, 4, 5}));
  EXPECT_EQ(timing.count, 5) << "two warm-ups do not count";
  EXPECT_EQ(timing.median_ms, 3);
  EXPECT_EQ(timing.min_ms, 1);
  EXPECT_EQ(timing.samples_ms, (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_DOUBLE_EQ(timing.flops_per_s, 1e6 / 3e-3);
  EXPECT_DOUBLE_EQ(timing.bytes_per_s, 2e6 / 3e-3);

  const ReadResult results = read_results(directory / "new/own.jsonl");
  ASSERT_EQ(results.records.size(), 1u);
  const Record& record = results.records[0];
  EXPECT_EQ(record.study, "mine");
  EXPECT_EQ(record.workload, (Json{{"name", "work"}, {"n", 7}}));
  EXPECT_EQ(record.find_series("call")->samples_ms, timing.samples_ms);
  EXPECT_FALSE(record.machine.fingerprint.empty());
  EXPECT_NEAR((*record.metrics)["call"]["gflops_per_s"].get<double>(), 1e6 / 3e-3 / 1e9, 1e-12);
}

TEST(Harness, TimesByTheHostsClockUnlessToldOtherwise) {
  int runs = 0;
  Harness harness({.results = "", .warmups = 1, .iterations = 3});
  const Timing timing = harness.measure({.name = "count", .run = [&] { ++runs; }});
  EXPECT_EQ(runs, 4);
  EXPECT_GE(timing.min_ms, 0);
}

TEST(Harness, ComparesWithABaseline) {
  const TempDir directory;
  const auto measure = [&](const char* file, double factor) {
    std::vector<double> times;
    for (int i = 0; i < 40; ++i) times.push_back(factor * (10 + 0.001 * (i % 7)));
    Harness({.results = directory / file, .warmups = 0, .iterations = 40}).measure(scripted(times));
    // The times are scripted, and so is the quiet machine that a verdict needs.
    Record record = read_results(directory / file).records.at(0);
    EXPECT_TRUE(record.disturbance && record.speed_before && record.speed_after);
    be_quiet(record);
    write_text(directory / file, to_line(record));
  };
  measure("base.jsonl", 1);
  measure("same.jsonl", 1);
  measure("slow.jsonl", 2);
  measure("fast.jsonl", 0.5);
  const auto verdict = [&](const char* file) {
    const auto rows = compare_with_baseline(directory / "base.jsonl", directory / file);
    EXPECT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows.at(0).workload, "work n=7");
    return rows.at(0);
  };
  EXPECT_EQ(verdict("base.jsonl").verdict, "SAME");
  EXPECT_EQ(verdict("same.jsonl").verdict, "UNCLEAR") << "one run a side";
  EXPECT_EQ(verdict("slow.jsonl").verdict, "SLOWER");
  EXPECT_EQ(verdict("fast.jsonl").verdict, "FASTER");
  EXPECT_NEAR(verdict("fast.jsonl").speedup, 2, 0.01);
  EXPECT_NEAR(verdict("slow.jsonl").improvement_percent, -100, 1);
  Record record = read_results(directory / "base.jsonl").records.at(0);
  record.workload = Json{{"n", 7}, {"name", "work"}};
  write_text(directory / "base.jsonl", to_line(record));
  const auto rows = compare_with_baseline(directory / "base.jsonl", directory / "base.jsonl");
  EXPECT_EQ(rows.at(0).workload, "n=7 work");
}

std::vector<CheckedResult> found(double error) {
  return {{"y", error, 1e-6}};
}

TEST(Harness, ChecksValuesBeforeItTimesThem) {
  const TempDir directory;
  Harness harness({.results = directory / "own.jsonl", .warmups = 1, .iterations = 2});
  Callable right = scripted({3});
  int runs_before_check = 0, runs = 0;
  right.run = [&] { ++runs; };
  right.check = [&] {
    runs_before_check = runs;
    return found(1e-7);
  };
  EXPECT_EQ(harness.measure(right).median_ms, 3);
  EXPECT_EQ(runs_before_check, 1);

  for (const double error : {1e-3, std::nan("")}) {
    Callable wrong = scripted({3});
    wrong.check = [&] { return found(error); };
    const Timing timing = harness.measure(wrong);
    EXPECT_EQ(timing.count, 0);
    EXPECT_HAS(timing.wrong, "y is wrong by");
  }
  const std::vector<Record> records = read_results(directory / "own.jsonl").records;
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].status, Status::ok);
  EXPECT_TRUE(records[0].verification.checked);
  EXPECT_EQ(records[0].verification.tensors.at(0).tolerance, 1e-6);
  EXPECT_EQ(records[1].status, Status::wrong);
  EXPECT_TRUE(records[1].series.empty());
}

// Takes turns in the order A B B A, and writes one record for each.
TEST(Harness, TakesTurns) {
  const TempDir directory;
  std::string order;
  Callable first = scripted({10, 20}), second = scripted({5, 10});
  first.implementation = "A";
  second.implementation = "B";
  first.run = [&] { order += 'A'; };
  second.run = [&] { order += 'B'; };
  Harness harness({.results = directory / "own.jsonl", .warmups = 0, .iterations = 4});
  const Turns turns = harness.measure_in_turns({first, second});
  EXPECT_EQ(order, "ABBAABBA");
  ASSERT_EQ(turns.timings.size(), 2u);
  EXPECT_EQ(turns.timings[0].samples_ms, (std::vector<double>{10, 20, 10, 20}));
  EXPECT_EQ(turns.ratios[0].median, 1);
  EXPECT_EQ(turns.ratios[1].median, 0.5);
  EXPECT_EQ(turns.ratios[1].high, 0.5);
  const std::vector<Record> records = read_results(directory / "own.jsonl").records;
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].implementation, "B");
  EXPECT_NE(records[1].find_series("call"), nullptr);

  second.check = [] { return found(1); };
  const Turns one_wrong = harness.measure_in_turns({first, second});
  EXPECT_EQ(one_wrong.timings[0].count, 4);
  EXPECT_FALSE(one_wrong.timings[1].wrong.empty());
  EXPECT_EQ(one_wrong.ratios[1].median, 0);
}

// A led program reports as many phases as there are callables.
TEST(Harness, TakesTurnsWithAnotherProgram) {
  const TempDir directory;
  write_text(directory / "turns", "warm_up 1\nstop 0\n");
  const int status = in_child([&] {
    setenv(kTurnsVariable, "1", 1);
    if (!std::freopen((directory / "turns").c_str(), "r", stdin) ||
        !std::freopen((directory / "reports").c_str(), "w", stdout))
      return 1;
    Harness({.results = "", .warmups = 0}).measure_in_turns({scripted({10}), scripted({5})});
    return 0;
  });
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::istringstream reports(read_text(directory / "reports"));
  std::string line;
  ASSERT_TRUE(std::getline(reports, line));
  EXPECT_EQ(parse_report(line)->names.size(), 2u) << line;
  ASSERT_TRUE(std::getline(reports, line));
  EXPECT_EQ(parse_report(line)->samples_ms, (std::vector<std::vector<double>>{{10}, {5}})) << line;
}

TEST(Harness, FlushesCachesBeforeEverySample) {
  const TempDir directory;
  Callable callable = scripted({1});
  callable.cold_cache = true;
  Harness harness({.results = directory / "own.jsonl", .warmups = 0, .iterations = 2});
  harness.measure(callable);
  EXPECT_EQ(read_results(directory / "own.jsonl").records.at(0).settings["mode"], "cold")
      << "cold rows are not compared with warm ones";
}

TEST(Harness, GivesFlopsAndBytesWhereReportsReadThem) {
  const TempDir directory;
  Harness({.results = directory / "own.jsonl", .warmups = 0, .iterations = 2})
      .measure(scripted({1}));
  const Record record = read_results(directory / "own.jsonl").records.at(0);
  const auto cost = cost_of(record, "call");
  ASSERT_TRUE(cost.has_value());
  EXPECT_EQ(cost->flops, 1'000'000);
  EXPECT_EQ(cost->bytes.count, 2'000'000);
}

TEST(Harness, SaysThatThereIsNoGpuClock) {
  if (cuda_library("cuda")) GTEST_SKIP() << "there is a driver";
  EXPECT_ERROR(cuda_clock(), ErrorKind::unsupported, "no NVIDIA driver");
}

TEST(Harness, NothingToMeasureIsAUsageError) {
  EXPECT_ERROR(Harness().measure({.name = "nothing"}), ErrorKind::usage, "nothing to measure");
  EXPECT_ERROR(Harness().measure({.run = [] {}}), ErrorKind::usage, "nothing to measure");
}

TEST(Harness, ASizeCalledNameIsAUsageError) {
  Callable callable = scripted({1});
  callable.sizes = {{"name", 3}};
  EXPECT_ERROR(Harness().measure(callable), ErrorKind::usage, "a size is called 'name'");
}

}  // namespace
}  // namespace ridgeline

// Rows of several runs (--runs) as one record: failed runs, and the run whose figures it shows.
#include "measure/merged_runs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/comparisons.h"
#include "measure/gate.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

void fail(Record& run, Status status, const std::string& error) {
  run.status = status;
  run.error = error;
}

Record one_row(const std::vector<Record>& runs) {
  const std::vector<Record> merged = runs_merged(runs);
  EXPECT_EQ(merged.size(), 1u);
  return merged.at(0);
}

TEST(MergedRuns, OneWrongRunMakesTheRowWrong) {
  for (const size_t wrong : {0u, 2u, 4u}) {
    std::vector<Record> runs = runs_at({1, 1, 1, 1, 1});
    fail(runs[wrong], Status::wrong, "output is off by 0.5");
    runs[wrong].verification = {
        .checked = true, .what = "whole tensors", .tensors = {{"output", 0.5, 0.1}}};
    const Record row = one_row(runs);
    EXPECT_EQ(row.status, Status::wrong) << wrong;
    EXPECT_EQ(row.error, "in 1 of 5 runs: output is off by 0.5");
    EXPECT_EQ(row.verification, runs[wrong].verification);
    EXPECT_EQ(row.merged_runs, 0) << "it has no times to judge";
  }
}

TEST(MergedRuns, AFailedRunIsNeverLeftOutInSilence) {
  for (const Status status : {Status::oom, Status::invalid, Status::unsupported, Status::skipped}) {
    std::vector<Record> runs = runs_at({1, 1, 1, 1, 1});
    for (const size_t failed : {1u, 3u}) fail(runs[failed], status, "it failed");
    EXPECT_EQ(one_row(runs).status, status);
    EXPECT_EQ(one_row(runs).error, "in 2 of 5 runs: it failed");
    runs[4].error.clear();
    fail(runs[4], Status::wrong, "");
    EXPECT_EQ(one_row(runs).status, Status::wrong) << "the worst of them";
    EXPECT_EQ(one_row(runs).error, "in 1 of 5 runs");
  }
}

TEST(MergedRuns, AFailureOfAllRunsIsToldAsThatOfOne) {
  std::vector<Record> runs = runs_at({1, 1, 1});
  for (Record& run : runs) fail(run, Status::unsupported, "no kernel of this width");
  EXPECT_EQ(one_row(runs).error, "no kernel of this width");
}

TEST(MergedRuns, AFailedRunFailsEveryGate) {
  const std::vector<Record> base = runs_at({1, 1, 1, 1, 1});
  std::vector<Record> next = base;
  fail(next[1], Status::wrong, "output is off by 0.5");
  const Comparison comparison = compare_records(base, next, {});
  EXPECT_EQ(comparison.rows.at(0).note,
            "the new side is wrong: in 1 of 5 runs: output is off by 0.5");
  EXPECT_EQ(judge(parse_gate("slower:50%"), comparison).failures.size(), 1u);
}

// Each run is marked by its peak memory.
TEST(MergedRuns, FiguresThatAreNotMergedAreThoseOfTheMiddleRun) {
  std::vector<Record> runs = runs_at({5, 1, 3, 2, 4});
  for (Record& run : runs) {
    run.memory.peak = Bytes{run.run};
    run.metrics = Json{{"run", run.run}};
  }
  EXPECT_EQ(one_row(runs).memory.peak, Bytes{3});
  EXPECT_EQ((*one_row(runs).metrics)["run"], 3);
  EXPECT_NEAR(one_row(runs).series[0].statistics.median_ms, 3, 0.01);
  EXPECT_EQ(one_row(runs).series[0].samples_ms.size(), 5u);
  runs[2].disturbance->other_cores = 1.5;  // is left out
  EXPECT_EQ(one_row(runs).memory.peak, Bytes{4}) << "the faster of the two in the middle";
}

TEST(MergedRuns, AMedianThatAFileDoesNotHaveIsLeftOut) {
  std::vector<Record> runs = runs_at({1, 2, 3, 4, 5});
  runs[2].series[0].statistics = {};
  EXPECT_EQ(one_row(runs).series[0].samples_ms, (std::vector<double>{1, 2, 4, 5}));
  for (Record& run : runs) run.series[0].statistics = {};
  EXPECT_FALSE(std::isfinite(one_row(runs).series[0].statistics.median_ms));
  const RowComparison row = compared(runs, runs_at({1, 1, 1}));
  EXPECT_FALSE(row.verdict);
  EXPECT_HAS(row.note, "the base: 0 samples");
}

TEST(MergedRuns, MergingAgainChangesNothing) {
  std::vector<Record> runs = runs_at({1, 2, 3}), more = runs_at({1, 2, 3, 4});
  fail(more[2], Status::oom, "it failed");
  std::vector<Record> once = runs_merged(runs);
  for (const Record& record : runs_merged(more)) once.push_back(record);
  EXPECT_EQ(once.size(), 2u);
  EXPECT_EQ(runs_merged(once), once);
}

}  // namespace
}  // namespace ridgeline

#include "studies/kernel/tables.h"

#include <gtest/gtest.h>

#include <sstream>

#include "measure/read_results.h"
#include "measure/test_support.h"

namespace ridgeline::kernel_study_test {
namespace {

Record kernel_record(Status status = Status::ok) {
  Record record;
  record.study = "kernel";
  record.time = "2026-01-31T12:34:56Z";
  record.implementation = "flash";
  record.device = "cpu";
  record.workload = {{"batch_size", 32}, {"heads", 8},      {"seq_len", 128},
                     {"head_dim", 64},   {"causal", false}, {"dtype", "bf16"}};
  record.settings = {{"mode", "hot"}};
  record.status = status;
  if (status == Status::unsupported) {
    record.error = "not here";
    return record;
  }
  record.series = {series_of("forward", {1, 2, 3}), series_of("forward_host", {0.5, 0.5, 0.5}),
                   series_of("backward", {4, 4, 4})};
  record.metrics = Json{{"forward",
                         {{"gflops_per_s", 12.5},
                          {"gb_per_s", 3.5},
                          {"queries_per_s", 1e6},
                          {"peak_share", 0.25},
                          {"host_us", 500.0}}},
                        {"conventions", "an FMA counts as two"}};
  return record;
}

std::string cell(const Table& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i] == column) return table.rows.at(row).at(i);
  ADD_FAILURE() << "no column " << column;
  return {};
}

TEST(KernelCsv, HasARowPerPassWithEveryStatistic) {
  const Table table = kernel_csv(std::vector{kernel_record()});
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(cell(table, 0, "pass"), "forward");
  EXPECT_EQ(cell(table, 1, "pass"), "backward");
  for (const auto& [column, value] : {std::pair{"mean_ms", "2"},
                                      {"median_ms", "2"},
                                      {"std_ms", "1"},
                                      {"min_ms", "1"},
                                      {"max_ms", "3"},
                                      {"p95_ms", "2.9"},
                                      {"p99_ms", "2.98"},
                                      {"iqr_ms", "1"},
                                      {"gflops_per_s", "12.5"},
                                      {"gb_per_s", "3.5"},
                                      {"queries_per_s", "1e+06"},
                                      {"peak_share", "0.25"},
                                      {"host_us", "500"},
                                      {"status", "success"},
                                      {"mode", "hot"},
                                      {"head_dim", "64"},
                                      {"causal", "False"}})
    EXPECT_EQ(cell(table, 0, column), value) << column;
  EXPECT_EQ(cell(table, 1, "median_ms"), "4");
  EXPECT_EQ(cell(table, 1, "gflops_per_s"), "") << "what was not derived stays empty";
}

TEST(KernelCsv, RowsWithoutAResultHaveEmptyCellsNeverZeros) {
  for (const Status status : {Status::unsupported, Status::wrong, Status::invalid}) {
    const Table table = kernel_csv(std::vector{kernel_record(status)});
    for (const char* column : {"mean_ms", "p99_ms", "gflops_per_s", "host_us"})
      EXPECT_EQ(cell(table, 0, column), "") << column;
    EXPECT_EQ(cell(table, 0, "status"), status_csv_word(status));
  }
}

TEST(KernelCsv, FilesOfBeforeCallTheShareOfThePeakUtilisation) {
  Record record = kernel_record();
  record.metrics = Json{{"forward", {{"sm_utilization", 0.5}}}};
  EXPECT_EQ(cell(kernel_csv(std::vector{record}), 0, "peak_share"), "0.5");
  EXPECT_EQ(cell(kernel_summary(std::vector{record}), 0, "peak %"), "50.0");
}

TEST(KernelTables, WhatWasMeasuredStandsBesideTheShareOfThePeakWithItsSource) {
  Record record = kernel_record();
  EXPECT_EQ(cell(kernel_csv(std::vector{record}), 0, "sm_active_pct"), "");
  (*record.metrics)["forward"]["utilization"] =
      Json{{"source", "NVML GPM"},
           {"sm_active", 0.03},
           {"tensor_active", 0.02},
           {"dram_bytes_per_s", 4e11},
           {"passed_over", {"CUPTI PM sampling: the driver allows it to administrators only"}}};
  (*record.metrics)["forward"]["busy_ms"] = 0.8;  // of 2
  const Table csv = kernel_csv(std::vector{record}), table = kernel_summary(std::vector{record});
  for (const auto& [column, value] : {std::pair{"sm_active_pct", "3"},
                                      {"tensor_active_pct", "2"},
                                      {"dram_bytes_per_s", "4e+11"},
                                      {"utilization_source", "NVML GPM"}})
    EXPECT_EQ(cell(csv, 0, column), value) << column;
  EXPECT_EQ(cell(csv, 1, "sm_active_pct"), "") << "backward was not looked at";
  EXPECT_EQ(cell(table, 0, "SM %"), "3.0");
  EXPECT_EQ(cell(table, 0, "tensor %"), "2.0");
  EXPECT_EQ(cell(table, 0, "DRAM GB/s"), "400.0");
  std::string notes;
  for (const std::string& note : kernel_notes(std::vector{record})) notes += note + '\n';
  for (const char* part :
       {"are measured by NVML GPM, in a loop of its own",
        "is not read by CUPTI PM sampling: the driver allows it to administrators only",
        "flash S=128 hot forward: multiprocessors had a warp in 3.0 % of cycles: kernels run in 40 "
        "% "
        "of the time, and then on 7.5 % of the multiprocessors"})
    EXPECT_HAS(notes, part) << part << '\n' << notes;
}

TEST(KernelSummary, CountsInMicroseconds) {
  const Table table = kernel_summary(std::vector{kernel_record()});
  EXPECT_EQ(cell(table, 0, "median"), "2000.00");
  EXPECT_EQ(cell(table, 0, "B,H,S,d"), "32,8,128,64");
  EXPECT_EQ(cell(table, 0, "peak %"), "25.0");
}

TEST(KernelSummary, HasTheIntervalOfTheMedianWithinTheRun) {
  Record record = kernel_record();
  EXPECT_EQ(cell(kernel_summary(std::vector{record}), 0, "+-%"), "") << "three samples are too few";
  record.series[0] = series_of("forward", {1, 1, 1, 1, 1, 1.1});
  const Table table = kernel_summary(std::vector{record});
  EXPECT_EQ(cell(table, 0, "+-%"), "5.0");
  EXPECT_HAS(table.title, "within-run");
  EXPECT_EQ(cell(kernel_csv(std::vector{record}), 0, "median_high_ms"), "1.1");
}

TEST(KernelSummary, FitsNarrowScreensWithWhatCountsMost) {
  Record record = kernel_record();
  record.implementation = "torch.sdpa.cudnn";
  for (const size_t width : {80, 100, 120}) {
    const std::string text = to_text(kernel_summary(std::vector{record}), {.width = width});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
    for (const char* part : {"median", "+-%", "status", "Left out to fit"})
      EXPECT_HAS(text, part) << part << '\n' << text;
  }
}

TEST(KernelSummary, BothAlgorithmsOfABackwardHaveNames) {
  Record single = kernel_record(), two = kernel_record();
  single.settings["backward"] = "single-pass";
  two.settings["backward"] = "two-pass";
  const std::vector<Record> both = {single, two};
  EXPECT_EQ(cell(kernel_summary(both), 2, "implementation"), "flash (two-pass)");
  EXPECT_EQ(cell(kernel_csv(both), 2, "implementation"), "flash");
  EXPECT_EQ(cell(kernel_csv(both), 2, "backward"), "two-pass");
}

TEST(KernelReport, TakesNothingForGranted) {
  Record odd = kernel_record();
  odd.metrics = Json{{"forward", "fast"}, {"conventions", 7}};
  odd.workload = {{"batch_size", "many"}};
  EXPECT_EQ(kernel_csv(std::vector{odd}).rows.size(), 2u);
  EXPECT_EQ(kernel_summary(std::vector{odd}).rows.size(), 2u);
  EXPECT_TRUE(kernel_csv(std::vector{attention_record({})}).rows.empty());
}

TEST(KernelNotes, PrintTheConventionOnceAndWhatFailed) {
  const std::vector<std::string> notes = kernel_notes(
      std::vector{kernel_record(), kernel_record(), kernel_record(Status::unsupported)});
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0], "flash unsupported: not here");
  EXPECT_TRUE(notes[1].starts_with("Too few samples in 2 rows")) << notes[1];
  EXPECT_EQ(notes[2], "an FMA counts as two");
}

}  // namespace
}  // namespace ridgeline::kernel_study_test

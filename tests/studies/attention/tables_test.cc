#include "studies/attention/tables.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "support/attention_columns.h"

namespace ridgeline::attention_study_test {
namespace {

using Row = std::vector<std::string>;

std::string cell(const Table& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i] == column) return table.rows.at(row).at(i);
  ADD_FAILURE() << "no column " << column;
  return {};
}

Record with_backward(Record record, const std::string& algorithm) {
  record.settings["backward"] = algorithm;
  return record;
}

Record oom(int seq_len, int d_model, int64_t predicted,
           const std::string& implementation = "naive") {
  Record record = attention_record({.implementation = implementation,
                                    .seq_len = seq_len,
                                    .d_model = d_model,
                                    .status = Status::oom});
  record.memory.predicted_peak = Bytes{predicted};
  return record;
}

TEST(AttentionCsv, AlwaysHasTheColumnsThatScriptsKnow) {
  Record record = attention_record({.forward_ms = 2, .backward_ms = 5});
  record.series = {series_of("forward", {1, 3}), series_of("backward", {4, 4})};
  record.memory.before_backward = Bytes{3 << 20};
  record.memory.peak = Bytes{(5 << 20) + (1 << 19)};
  record.memory.process_peak_growth = Bytes{6 << 20};
  record.verification = {true, "whole tensors", "fp64", {{"output", 2e-6, 1e-5}}};
  record.metrics = Json{{"compile_seconds", 0.25}};
  record = with_backward(record, "two-pass");
  const Table table = attention_csv(std::vector{record});
  EXPECT_EQ(table.columns, testing::kAttentionColumns);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0],
            (Row{"8",     "256",      "64",  "1",       "False", "fp32", "cpu",     "naive",
                 "False", "two-pass", "2",   "1.41421", "4",     "0",    "6",       "2",
                 "4",     "3",        "5.5", "6",       "0.2",   "0.25", "success", ""}));
}

TEST(AttentionCsv, RowsWithoutAResultHaveEmptyCellsNeverZeros) {
  for (const Status status : {Status::oom, Status::unsupported, Status::wrong, Status::invalid}) {
    Record record = attention_record({.status = status});
    record.series = {
        series_of("forward", {1, 2})};  // a wrong row was timed, and still shows no time
    record.memory.peak = Bytes{1 << 20};
    const Table table = attention_csv(std::vector{record});
    for (const char* column : {"forward_mean_ms", "total_mean_ms", "forward_median_ms",
                               "peak_memory_mb", "error_over_tolerance", "compile_seconds"})
      EXPECT_EQ(cell(table, 0, column), "") << column;
    EXPECT_EQ(cell(table, 0, "status"), status_csv_word(status));
    EXPECT_EQ(cell(table, 0, "error"), "it failed");
  }
}

TEST(AttentionCsv, MemoryOfASmallRowIsNotZero) {
  Record record = attention_record({});
  record.memory.peak = Bytes{2052};
  EXPECT_EQ(cell(attention_csv(std::vector{record}), 0, "peak_memory_mb"), "0.00195694");
}

TEST(AttentionSummary, FiguresOfASmallRowAreNotZero) {
  Record record = attention_record({.forward_ms = 0.000314, .backward_ms = 0.0625});
  record.memory.peak = Bytes{2052};
  const Table small = attention_summary(std::vector{record});
  EXPECT_EQ(cell(small, 0, "forward ms"), "0.000314");
  EXPECT_EQ(cell(small, 0, "backward ms"), "0.0625");
  EXPECT_EQ(cell(small, 0, "peak MiB"), "0.00196");
  record = attention_record({.forward_ms = 0.25, .backward_ms = 12.5});
  record.memory.peak = Bytes{3 << 20};
  const Table large = attention_summary(std::vector{record});
  EXPECT_EQ(cell(large, 0, "forward ms"), "0.250");
  EXPECT_EQ(cell(large, 0, "backward ms"), "12.50");
  EXPECT_EQ(cell(large, 0, "peak MiB"), "3.00");
}

TEST(AttentionCsv, ASingleSampleHasNoStandardDeviation) {
  Record record = attention_record({});
  record.series = {series_of("forward", {1}), series_of("backward", {2})};
  EXPECT_EQ(cell(attention_csv(std::vector{record}), 0, "forward_std_ms"), "");
}

TEST(AttentionCsv, SaysWhichImplementationsWereCompiled) {
  const Table table =
      attention_csv(std::vector{attention_record({.implementation = "naive"}),
                                attention_record({.implementation = "compiled"}),
                                attention_record({.implementation = "torch.compile"})});
  EXPECT_EQ(cell(table, 0, "implementation"), "naive");
  EXPECT_EQ(cell(table, 0, "compiled"), "False");
  EXPECT_EQ(cell(table, 1, "compiled"), "True");
  EXPECT_EQ(cell(table, 2, "compiled"), "True");
}

TEST(AttentionCsv, IsSortedAndTheLaterOfTwoMeasurementsCounts) {
  const Table table = attention_csv(std::vector{
      attention_record({.seq_len = 1024}),
      attention_record({.seq_len = 256, .status = Status::oom}), attention_record({.seq_len = 256}),
      attention_record({.seq_len = 256, .d_model = 16})});
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][2], "16");
  EXPECT_EQ(table.rows[1][1], "256");
  EXPECT_EQ(cell(table, 1, "status"), "success");
  EXPECT_EQ(table.rows[2][1], "1024");
}

TEST(AttentionCsv, PassesOverRecordsOfOtherStudiesAndMalformedWorkloads) {
  std::vector<Record> records(6, attention_record({}));
  records[1].study = "model";
  records[2].workload["seq_len"] = "long";
  records[3].workload["d_model"] = -4;
  records[4].workload = Json::object();
  records[5].workload["batch_size"] = UINT64_MAX;
  EXPECT_EQ(attention_csv(records).rows.size(), 1u);
}

TEST(AttentionSummary, ShowsMediansAndTheStateOfEachRow) {
  Record good = attention_record({.forward_ms = 2, .backward_ms = 30});
  good.series[0] = series_of("forward", {1.9, 2, 2, 2, 2, 2.1, 50});  // the mean is far off
  good.verification = {true, "whole tensors", "fp64", {{"output", 1e-6, 1e-5}, {"dQ", 5e-6, 1e-5}}};
  good.memory.peak = Bytes{20 << 20};
  const Table table = attention_summary(std::vector{good, oom(512, 64, 1)});
  EXPECT_EQ(table.title,
            "attention: batch 8, heads 1, not causal, fp32, cpu, naive; medians, +-% within-run");
  EXPECT_EQ(table.columns, (Row{"d_model", "seq_len", "forward ms", "backward ms", "total ms",
                                "+-%", "peak MiB", "error/tol", "status"}));
  EXPECT_EQ(table.rows[0][2], "2.000");
  EXPECT_EQ(table.rows[0][3], "30.00");
  EXPECT_EQ(table.rows[0][4], "32.00");
  EXPECT_EQ(table.rows[0][6], "20.00");
  EXPECT_EQ(table.rows[0][7], "0.5");
  EXPECT_EQ(table.rows[1], (Row{"64", "512", "", "", "", "", "", "", "OOM"}));
  good.verification.tensors[0].max_error = Statistics::kUnknown;
  EXPECT_EQ(attention_summary(std::vector{good}).rows[0][7], "nan");
}

TEST(AttentionSummary, BothAlgorithmsOfOneImplementationAreRowsOfTheirOwn) {
  const Record flash = attention_record({.implementation = "flash", .backward_ms = 2});
  Record slower = attention_record({.implementation = "flash", .backward_ms = 3});
  const std::vector<Record> both = {with_backward(flash, "single-pass"),
                                    with_backward(slower, "two-pass")};
  const Table table = attention_summary(both);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(cell(table, 0, "implementation"), "flash (single-pass)");
  EXPECT_EQ(cell(table, 1, "implementation"), "flash (two-pass)");
  const std::vector<Table> beside = attention_side_by_side(both);
  ASSERT_EQ(beside.size(), 2u);
  EXPECT_EQ(cell(beside[1], 0, "flash (two-pass)"), "3.000");
  EXPECT_EQ(cell(attention_csv(both), 1, "backward"), "two-pass");
  EXPECT_EQ(attention_summary(std::vector{both[0]}).columns[2], "forward ms")
      << "one algorithm needs no name";
}

TEST(AttentionSummary, ThePeakOfAPeerOnACpuIsThatOfItsProcessAndMarked) {
  Record peer = attention_record({.implementation = "torch.sdpa"});
  peer.memory.process_peak_growth = Bytes{3 << 20};
  Record ours = attention_record({.implementation = "flash"});
  ours.memory.process_peak_growth = Bytes{3 << 20};
  ours.memory.peak = Bytes{1 << 20};
  const Table table = attention_summary(std::vector{peer, ours});
  EXPECT_EQ(cell(table, 0, "peak MiB"), "3.00*");
  EXPECT_EQ(cell(table, 1, "peak MiB"), "1.00");
  EXPECT_HAS(attention_memory_note(std::vector{peer}), "the process");
  EXPECT_EQ(attention_memory_note(std::vector{ours}), "");
}

TEST(AttentionSummary, TheIntervalIsEmptyWithTooFewSamples) {
  Record record = attention_record({});
  record.series = {series_of("forward", {1, 1, 1, 1, 1, 1.2}), series_of("backward", {2, 2, 2})};
  EXPECT_EQ(cell(attention_summary(std::vector{record}), 0, "+-%"), "10.0")
      << "of the phase that has enough";
  record.series[0] = series_of("forward", {1, 1, 1});
  EXPECT_EQ(cell(attention_summary(std::vector{record}), 0, "+-%"), "");
}

TEST(AttentionSummary, OfNothingIsATableWithoutRows) {
  EXPECT_TRUE(attention_summary({}).rows.empty());
}

TEST(AttentionSideBySide, SpeedupsAreOverTheFirstImplementationNamed) {
  const std::vector<Record> records = {
      attention_record({.implementation = "flash", .forward_ms = 1, .backward_ms = 4}),
      attention_record({.implementation = "naive", .forward_ms = 3, .backward_ms = 2})};
  const std::vector<std::string> order = {"naive", "flash"};
  const std::vector<Table> tables = attention_side_by_side(records, order);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].columns, (Row{"d_model", "seq_len", "naive", "flash", "flash speedup"}));
  EXPECT_EQ(tables[0].rows[0], (Row{"64", "256", "3.000", "1.000", "3.00x"}));
  EXPECT_EQ(tables[1].rows[0], (Row{"64", "256", "2.000", "4.000", "2.00x slower"}));
  EXPECT_EQ(attention_side_by_side(records)[0].columns[4], "naive speedup");
}

TEST(AttentionSideBySide, MissingAndFailedCellsSaySo) {
  const std::vector<Table> tables = attention_side_by_side(
      std::vector{oom(256, 64, 1), attention_record({.implementation = "flash"}),
                  attention_record({.implementation = "flash", .seq_len = 512})});
  EXPECT_EQ(tables[0].rows[0], (Row{"64", "256", "OOM", "1.000", "-"}));
  EXPECT_EQ(tables[0].rows[1], (Row{"64", "512", "-", "1.000", "-"}));
}

TEST(AttentionSideBySide, NeedsTwoImplementations) {
  EXPECT_TRUE(attention_side_by_side(std::vector{attention_record({})}).empty());
}

TEST(SmallestOom, IsTheOneThatNeedsLeastThenTheShortest) {
  EXPECT_EQ(smallest_oom(std::vector{attention_record({})}), nullptr);
  const std::vector<Record> records = {oom(16384, 16, 900), oom(8192, 128, 800), oom(8192, 64, 700),
                                       oom(16384, 64, 700)};
  EXPECT_EQ(smallest_oom(records), &records[2]);
  std::vector<Record> unpredicted = {oom(16384, 64, 0), oom(8192, 128, 0), oom(8192, 16, 0)};
  for (Record& record : unpredicted) record.memory.predicted_peak.reset();
  EXPECT_EQ(smallest_oom(unpredicted), &unpredicted[2]);
}

}  // namespace
}  // namespace ridgeline::attention_study_test

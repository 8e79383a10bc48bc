#include "studies/gemm/tables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "measure/test_support.h"

namespace ridgeline::gemm_study_test {
namespace {

Record product(const std::string& implementation, const std::vector<double>& samples_ms) {
  Record record;
  record.study = "gemm";
  record.implementation = implementation;
  record.device = "cpu";
  record.workload = {{"op", "gemm"}, {"m", 64}, {"n", 64}, {"k", 64}, {"dtype", "fp32"}};
  record.cost = CostFacts{.forward = {.flops = 2 << 18, .macs = 1 << 18, .bytes = Bytes{49152}},
                          .backward = {},
                          .convention = "an FMA counts as two"};
  record.series = {series_of("forward", samples_ms)};
  return record;
}

std::string notes_of(const std::vector<Record>& records) {
  std::string text;
  for (const std::string& note : with_verdicts<gemm_notes>(records)) text += note + "\n";
  return text;
}

TEST(GemmReport, RungsStandBesideTheLibraryByVerdict) {
  const std::vector<double> many(9, 10.0), slow(9, 42.0), quick(9, 5.0);
  std::vector<Record> records = {product("naive", slow), product("tiled", many),
                                 product("simd", quick), product("library", many)};
  for (Record& record : records) record.merged_runs = 9;
  const std::string text = notes_of(records);
  for (const char* note : {"gemm fp32 cpu 64x64x64: naive is 4.20x slower than the library\n",
                           "gemm fp32 cpu 64x64x64: tiled is as fast as the library\n",
                           "gemm fp32 cpu 64x64x64: simd is 2.00x as fast as the library\n"})
    EXPECT_HAS(text, note);
  EXPECT_LACKS(text, "Noisy");
}

TEST(GemmReport, ARatioOfFewSamplesIsUndecided) {
  const std::string text =
      notes_of({product("naive", {10, 40, 90}), product("library", std::vector<double>(9, 10.0))});
  EXPECT_HAS(text,
             "naive against the library is undecided (4.00x slower by the medians): too "
             "few samples: 3, and 6 are needed\n");
  EXPECT_HAS(text, "Too few samples in 1 row: fewer than 6");
}

// "Undecided" beside a factor of 57 explains nothing: the machine is what is in doubt.
TEST(GemmReport, ALargeFactorOnAnUnsteadyMachineSaysWhyThereIsNoVerdict) {
  std::vector<Record> records = {product("naive", std::vector<double>(9, 570.0)),
                                 product("library", std::vector<double>(9, 10.0))};
  for (Record& record : records) be_quiet(record);
  EXPECT_HAS(notes_of(records), "naive is 57.00x slower than the library\n");
  records[0].disturbance->stolen_cores = 1;
  const std::string text = notes_of(records);
  EXPECT_HAS(text,
             "naive is 57.00x slower than the library by the medians, and there is no "
             "verdict, because the machine is in doubt: other virtual machines took 1 of");
}

// A row that was measured again in another file replaces the older one, in notes as in charts.
TEST(GemmReport, NotesReadTheRowsThatCount) {
  std::vector<Record> records = {product("library", std::vector<double>(9, 40.0)),
                                 product("naive", std::vector<double>(9, 80.0)),
                                 product("library", std::vector<double>(9, 10.0)),
                                 product("naive", std::vector<double>(9, 30.0))};
  records[2].time = records[3].time = "2027-01-01T00:00:00Z";
  ReportInput input;
  input.records = records;
  std::string text;
  for (const std::string& sentence : gemm_section(report_context(input)).sentences)
    text += sentence + "\n";
  EXPECT_NE(text.find("3.00x slower"), std::string::npos) << text;
  EXPECT_EQ(text.find("library against"), std::string::npos) << text;
  EXPECT_EQ(text.find("2.00x"), std::string::npos) << text;
}

TEST(GemmReport, ModesAreNotComparedWithEachOther) {
  Record cold = product("naive", std::vector<double>(9, 40.0));
  cold.settings = {{"mode", "cold"}};
  Record hot = product("library", std::vector<double>(9, 10.0));
  hot.settings = {{"mode", "hot"}};
  EXPECT_LACKS(notes_of({cold, hot}), "than the library");
}

Record hot_gemv(double of_memory, double of_cache) {
  Record record = product("library", std::vector<double>(9, 0.001));
  record.workload = {{"op", "gemv"}, {"m", 256}, {"n", 1}, {"k", 256}, {"dtype", "fp32"}};
  record.cost->forward.bytes = Bytes{256 << 10};
  record.metrics = Json{{"forward",
                         {{"ceiling_share", of_cache},
                          {"memory_ceiling_share", of_memory},
                          {"ceiling_level", "L2"},
                          {"ceiling_level_bytes", 2 << 20}}}};
  return record;
}

// GB/s above those of memory are no error of measurement where a cache holds the operands.
TEST(GemmReport, AHotGemvInACacheIsToldByBothRoofs) {
  const std::string passed = notes_of({hot_gemv(1.2, 0.3), hot_gemv(3.5, 0.62)});
  EXPECT_HAS(passed,
             "gemv fp32 cpu 256x1x256 by library: its operands, 256 KiB, fit L2 (2.00 MiB), "
             "which holds them from call to call, so that the roof of memory is passed: "
             "it runs at 350 % of the memory's roof and at 62 % of L2's");
  EXPECT_LACKS(passed, "120 %") << "one row speaks for its group";
  EXPECT_HAS(notes_of({hot_gemv(0.8, 0.2)}), "the roof of memory may be passed");
  Record from_memory = hot_gemv(0.8, 0.8);
  (*from_memory.metrics)["forward"] =
      Json{{"ceiling_share", 0.8}, {"memory_ceiling_share", 0.8}, {"ceiling_level", "memory"}};
  EXPECT_LACKS(notes_of({from_memory}), "roof of memory");
}

TEST(GemmReport, DrawsSpeedAndLatencyAgainstTheSize) {
  const ReportDocument report =
      make_report({.records = {hot_gemv(1, 1), product("tiled", std::vector<double>(9, 2.0))},
                   .sections = {gemm_section}});
  ASSERT_FALSE(report.sections.empty());
  const ReportSection& section = report.sections[0];
  ASSERT_EQ(section.views.size(), 2u) << "gemm and gemv";
  for (const ReportView& view : section.views) {
    ASSERT_EQ(view.charts.size(), 2u);
    EXPECT_EQ(view.charts[0].id, "gemm-speed") << "the picture";
    EXPECT_TRUE(view.charts[0].x.log && view.charts[0].y.log);
    EXPECT_EQ(view.charts[1].id, "gemm-latency");
  }
  EXPECT_EQ(section.views[0].charts[1].series.at(0).points.at(0).y, 2.0);
  EXPECT_EQ(section.views[1].charts[1].series.at(0).points.at(0).x, 256) << "of a gemv, the edge";
}

TEST(GemmReport, TheLibraryOnMoreThreadsIsNotBeside) {
  ReportInput input;
  input.records = {product("simd", std::vector<double>(9, 2.0)),
                   product("library", std::vector<double>(9, 1.0))};
  input.records[0].settings["threads"] = 1;
  input.records[1].settings["threads"] = 2;
  const ReportSection section = gemm_section(report_context(input));
  EXPECT_HAS(section.answer, "CPU, 1 thread) simd is the fastest of our own");
  EXPECT_LACKS(section.answer, "library");
  ASSERT_EQ(section.views.size(), 2u);
  EXPECT_HAS(section.views[1].name, ", 2 threads");
}

TEST(GemmReport, TheFastestOfOurOwnIsSoByTheMedians) {
  const ReportInput input{.records = {product("tiled", std::vector<double>(9, 2.0)),
                                      product("simd", std::vector<double>(9, 2.001))}};
  const std::string answer = gemm_section(report_context(input)).answer;
  EXPECT_HAS(answer, ") tiled is the fastest of our own by the medians, ");
}

// Speed alone does not say whether it is good: the roof and the library do.
TEST(GemmReport, TheFastestHasItsShareOfTheRoofAndTheLibraryBeside) {
  ReportInput input{.records = {product("simd", std::vector<double>(9, 2.0)),
                                product("library", std::vector<double>(9, 1.0))}};
  for (Record& record : input.records) {
    record.settings = {{"isa", "avx2"}, {"threads", 2}, {"mode", "hot"}};
    record.machine.max_clock_mhz = 2000;
  }
  const std::string answer = gemm_section(report_context(input)).answer;
  EXPECT_HAS(answer, " % of the arithmetic roof; the library reaches ");
  EXPECT_TRUE(
      answer.ends_with(" % of the arithmetic roof (2.00x as fast, undecided: machine in doubt)."))
      << answer << ": nothing says whether it was quiet";
}

TEST(GemmReport, HasTheIntervalOfTheMedianWithinTheRun) {
  const auto interval = [](const std::vector<double>& samples_ms) {
    const Table table = gemm_summary(std::vector{product("naive", samples_ms)});
    const auto column = std::find(table.columns.begin(), table.columns.end(), "+-%");
    return table.rows.at(0).at(static_cast<size_t>(column - table.columns.begin()));
  };
  EXPECT_EQ(interval({1, 1, 1, 1, 1, 1.1}), "5.0");
  EXPECT_EQ(interval({1, 1, 1}), "") << "too few samples";
}

}  // namespace
}  // namespace ridgeline::gemm_study_test

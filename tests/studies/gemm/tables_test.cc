#include "studies/gemm/tables.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "measure/test_support.h"

namespace ridgeline {
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
  for (const std::string& note : gemm_notes(records)) text += note + "\n";
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
    EXPECT_NE(text.find(note), std::string::npos) << text;
  EXPECT_EQ(text.find("Noisy"), std::string::npos) << text;
}

TEST(GemmReport, ARatioOfFewSamplesIsUndecided) {
  const std::string text =
      notes_of({product("naive", {10, 40, 90}), product("library", std::vector<double>(9, 10.0))});
  EXPECT_NE(text.find("naive against the library is undecided (4.00x slower by the medians): too "
                      "few samples: 3, and 6 are needed\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Too few samples in 1 row: fewer than 6"), std::string::npos) << text;
}

TEST(GemmReport, ModesAreNotComparedWithEachOther) {
  Record cold = product("naive", std::vector<double>(9, 40.0));
  cold.settings = {{"mode", "cold"}};
  Record hot = product("library", std::vector<double>(9, 10.0));
  hot.settings = {{"mode", "hot"}};
  EXPECT_EQ(notes_of({cold, hot}).find("than the library"), std::string::npos);
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
}  // namespace ridgeline

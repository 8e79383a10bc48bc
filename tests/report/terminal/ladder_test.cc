#include "report/terminal/ladder.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record model(const std::string& mode, double ms, int launches) {
  Record record;
  record.study = "model";
  record.implementation = mode;
  record.device = "cpu";
  record.workload = {
      {"model_size", "small"}, {"context_length", 128}, {"batch_size", 4}, {"precision", "mixed"}};
  record.series.push_back(series_of("full_step", {ms, ms, ms, ms, ms, ms}));
  record.metrics = Json{{"full_step", {{"launches", launches}, {"peak_bytes", 3 << 20}}}};
  return record;
}

std::vector<std::string> row_of(const Table& table, const std::string& rung) {
  for (const auto& row : table.rows)
    if (row[0].ends_with("full_step") && row[1] == rung) return row;
  return {};
}

TEST(Ladder, TellsWhatEachRungBroughtWhateverTheOrderOfRecords) {
  const std::vector<Record> records = {model("compiled", 2, 60), model("vanilla", 12, 300),
                                       model("flash", 3, 60), model("fused", 6, 80)};
  const Table table = ladder_table(records, "model");
  EXPECT_EQ(row_of(table, "vanilla"),
            (std::vector<std::string>{"small mixed context_length=128 batch_size=4 full_step",
                                      "vanilla", "300", "12", "0.0", "3.00", "", "", "12", "0"}));
  const std::vector<std::string> fused = row_of(table, "fused"), flash = row_of(table, "flash"),
                                 compiled = row_of(table, "compiled");
  ASSERT_FALSE(compiled.empty());
  EXPECT_EQ(fused[6], "2.00x");
  EXPECT_EQ(fused[7], "2.00x");
  EXPECT_EQ(flash[6], "4.00x");
  EXPECT_EQ(compiled[6], "6.00x");
  EXPECT_EQ(compiled[7], "1.50x");
}

TEST(Ladder, ComparesWithVanillaOnlyIfItRanAndLeavesOutOtherScenarios) {
  const std::vector<Record> records = {model("fused", 6, 80), model("flash", 3, 60),
                                       model("compiled", 2, 60)};
  const Table table = ladder_table(records, "model");
  EXPECT_EQ(table.rows.size(), 3u);  // of full_step
  EXPECT_EQ(row_of(table, "flash")[6], "");
  EXPECT_EQ(row_of(table, "flash")[7], "2.00x");
}

TEST(Ladder, TwoRungsAreNoLadder) {
  EXPECT_TRUE(
      ladder_table(std::vector{model("compiled", 2, 60), model("vanilla", 12, 300)}, "model")
          .rows.empty());
}

std::vector<Record> attention_rungs() {
  std::vector<Record> records;
  double ms = 8;
  for (const char* name : {"naive", "fused", "compiled", "flash"}) {
    Record record = model(name, 1, 1);
    record.study = "attention";
    record.workload = {{"dtype", "fp32"}, {"seq_len", 64}, {"d_model", 32},
                       {"batch_size", 8}, {"heads", 1},    {"causal", true}};
    record.series = {series_of("forward", {ms, ms, ms}), series_of("backward", {ms, ms, ms})};
    record.metrics = Json{{"launches", 4}};
    record.memory.peak = Bytes{1 << 20};
    records.push_back(record);
    ms /= 2;
  }
  return records;
}

TEST(Ladder, OfAttentionAddsForwardAndBackwardAndSetsTheKernelBeside) {
  const Table table = ladder_table(attention_rungs(), "attention");
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(table.rows[0][0], "fp32 seq_len=64 d_model=32 batch_size=8 heads=1 causal");
  EXPECT_EQ(table.rows[0][3], "16");
  EXPECT_EQ(table.rows[2][7], "2.00x");
  EXPECT_EQ(table.rows[3][1], "flash");
  EXPECT_EQ(table.rows[3][6], "8.00x");
  EXPECT_EQ(table.rows[3][7], "");
}

TEST(Ladder, OfAttentionLeavesColumnsOutOfANarrowTerminal) {
  const std::string text = to_text(ladder_table(attention_rungs(), "attention"), {.width = 100});
  EXPECT_EQ(text.find("peak MiB  "), std::string::npos) << text;
  EXPECT_NE(text.find("over naive"), std::string::npos) << text;
}

}  // namespace
}  // namespace ridgeline

#include "studies/frontier/tables.h"
#include "support/expect.h"

#include <gtest/gtest.h>

namespace ridgeline::frontier_study_test {
namespace {

Record frontier(const char* implementation, int64_t fits, bool ended, int64_t budget = 1 << 30) {
  Record record;
  record.study = "frontier";
  record.implementation = implementation;
  record.device = "cpu";
  record.workload = {
      {"batch_size", 8}, {"heads", 1}, {"d_model", 64}, {"dtype", "fp32"}, {"causal", false}};
  record.settings = {{"memory_budget_bytes", budget}};
  record.metrics =
      Json{{"seq_len", fits}, {"predicted_seq_len", fits}, {"limited_by", "its run limit"}};
  if (ended) (*record.metrics)["first_oom_seq_len"] = fits + 128;
  return record;
}

std::string notes_of(const std::vector<Record>& records) {
  std::string text;
  for (const std::string& note : frontier_notes(records)) text += note + "\n";
  return text;
}

TEST(FrontierReport, ARatioOfTwoEndsIsOne) {
  const std::string text = notes_of({frontier("naive", 1000, true), frontier("flash", 8000, true)});
  EXPECT_HAS(text, "flash reaches 8 times the sequence of naive");
}

TEST(FrontierReport, WhatDidNotEndReachesAtLeastAsMuch) {
  const std::string text =
      notes_of({frontier("naive", 1000, true), frontier("flash", 8000, false)});
  EXPECT_HAS(text, "flash reaches at least 8 times the sequence of naive");
  EXPECT_HAS(text, "the search ended at 8000, not memory: its run limit");
}

TEST(FrontierReport, WithoutAnEndOrWithinOtherBudgetsThereIsNoRatio) {
  for (const std::vector<Record>& records :
       {std::vector{frontier("naive", 1000, false), frontier("flash", 8000, true)},
        std::vector{frontier("naive", 1000, true), frontier("flash", 8000, true, 1 << 20)}})
    EXPECT_LACKS(notes_of(records), "reaches");
}

// The probes ended before the next longer sequence was tried.
TEST(FrontierReport, ALimitThatWasNotFoundIsARange) {
  Record naive = frontier("naive", 1024, true), flash = frontier("flash", 4096, true);
  for (Record* record : {&naive, &flash}) record->settings["step"] = 128;
  EXPECT_HAS(notes_of({naive, flash}), "flash reaches 4 times the sequence of naive");
  (*flash.metrics)["first_oom_seq_len"] = 8192;
  (*flash.metrics)["predicted_seq_len"] = 16384;
  const std::string text = notes_of({naive, flash});
  EXPECT_HAS(text, "flash reaches at least 4 times the sequence of naive");
  EXPECT_HAS(text, "the memory model said 16384, the limit lies between 4096 and 8192");
  EXPECT_LACKS(text, "the probes 4096");
  EXPECT_LACKS(notes_of({flash, naive}), "reaches");
  const ReportInput input{.records = {flash}};
  EXPECT_HAS(frontier_section(report_context(input)).answer, "flash at least to S 4096");
}

TEST(FrontierReport, TheAnswerCallsNoLimitWhatWasTheLastLengthLookedAt) {
  const ReportInput input{
      .records = {frontier("naive", 1024, true), frontier("flash", 4096, false)}};
  const ReportSection section = frontier_section(report_context(input));
  EXPECT_TRUE(section.answer.starts_with("naive up to S 1024, flash at least to S 4096 within"))
      << section.answer;
}

TEST(FrontierReport, TheAnswerIsThatOfOneViewWhichItNames) {
  ReportInput input{.records = {frontier("flash", 4096, true), frontier("flash", 16384, true),
                                frontier("flash", 2048, true, 1 << 20)}};
  input.records[1].workload["dtype"] = "bf16";
  const ReportSection section = frontier_section(report_context(input));
  EXPECT_EQ(section.views.size(), 3u);
  EXPECT_EQ(section.answer,
            "flash up to S 16384 within a budget of 1.00 GiB (d 64, heads 1, bf16 on cpu, batch "
            "8).");
}

}  // namespace
}  // namespace ridgeline::frontier_study_test

// How certain a report calls its answers: disturbed times, large differences on a machine in doubt,
// predictions, several times of one step, and names that distinguish views.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "measure/merged_runs.h"
#include "measure/test_support.h"
#include "report/page/document.h"
#include "report/page/html_page.h"
#include "report/page/quiet.h"
#include "report/page/sections.h"
#include "report/page/short_paths.h"
#include "report/page/winners.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

ReportDocument report_of_all(std::vector<Record> records) {
  return make_report({.records = std::move(records),
                      .sections = report_sections(),
                      .unchecked = unchecked_studies(),
                      .titles = study_titles()});
}

const ReportSection* find_section(const ReportDocument& document, const char* id) {
  const auto found = std::ranges::find(document.sections, id, &ReportSection::id);
  return found == document.sections.end() ? nullptr : &*found;
}

void disturb(Record& record, double other_cores) {
  record.disturbance = Disturbance{.window_s = 1, .processors = 2, .other_cores = other_cores};
}

std::vector<Record> two_rows(double naive_ms, double flash_ms) {
  return {attention_record(
              {.implementation = "naive", .forward_ms = naive_ms, .backward_ms = naive_ms}),
          attention_record(
              {.implementation = "flash", .forward_ms = flash_ms, .backward_ms = flash_ms})};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ReportTrust, GathersWhatRanBesideTheRows) {
  std::vector<Record> records = two_rows(4, 1);
  records.push_back(attention_record({.implementation = "compiled"}));
  records[0].machine.load_average = 17;
  const ReportSection quiet = *find_section(report_of_all(records), "trust");
  EXPECT_TRUE(has(quiet.answer, "Quiet: no other work ran beside any of 3 timed rows."))
      << quiet.answer;
  EXPECT_EQ(quiet.certainty.level, Certainty::Level::measured);
  records.push_back(attention_record({.implementation = "own", .status = Status::wrong}));
  records.back().series = records[0].series;
  EXPECT_TRUE(has(find_section(report_of_all(records), "trust")->answer, "any of 3 timed rows."))
      << "times of a wrong row are not shown";
  records.pop_back();

  disturb(records[0], 0.7);
  disturb(records[1], 1.5);
  const ReportDocument document = report_of_all(records);
  const ReportSection& trust = *find_section(document, "trust");
  EXPECT_TRUE(trust.answer.starts_with(
      "Disturbed: other work took up to 1.5 of 2 processors beside 2 of 3 timed rows."))
      << trust.answer;
  records[1].disturbance->stolen_cores = 1.6;
  Record counted = attention_record({.implementation = "counted"});  // not timed
  counted.series.clear();
  counted.disturbance = records[1].disturbance;
  records.push_back(counted);
  const ReportSection host = *find_section(report_of_all(records), "trust");
  EXPECT_TRUE(has(host.answer, "beside 2 of 3 timed rows (1 by other virtual machines)."))
      << host.answer;
  EXPECT_EQ(trust.certainty.level, Certainty::Level::disturbed);
  EXPECT_TRUE(has(trust.certainty.why, "with --runs 5 on a quiet machine")) << "what to do";
  ASSERT_EQ(trust.tables.size(), 2u);
  const ReportTable& rows = trust.tables[0];
  ASSERT_EQ(rows.rows.size(), 2u) << "which rows they are";
  EXPECT_EQ(rows.rows[0].at(1).text, "flash") << "the most disturbed first";
  EXPECT_EQ(rows.rows[0].at(3).text, "1.5 of 2");
  EXPECT_EQ(trust.tables[1].rows.at(0).at(2).text, "2");
  EXPECT_EQ(trust.tables[1].rows[0].at(4).text, "17.0");
  EXPECT_EQ(trust.tables[1].rows[0].at(0).text, "Attention") << "as the navigation names it";
  const Chart& chart = trust.views.at(0).charts.at(0);
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].points.at(0).value, "2 of 3");
  EXPECT_NEAR(chart.series[0].points[0].y, 200.0 / 3, 1e-9);
  EXPECT_TRUE(std::ranges::any_of(document.figures, [](const KeyFigure& figure) {
    return figure.value == "2 of 3" && figure.what == "timed rows beside other work";
  })) << "the first screen says so, too";
}

// The certainty of a section depends on disturbance during its own rows only.
TEST(ReportTrust, TimesBesideOtherWorkAreNotCalledMeasured) {
  Record record = attention_record({});
  record.study = "comm";
  record.series = {series_of("collective", {1, 1, 1, 1, 1, 1, 1})};
  const auto level = [&](const char* study) {
    const ReportInput input{.records = {record, attention_record({})}};
    return certainty_of_times(report_context(input), study, "Medians.");
  };
  EXPECT_EQ(level("comm").level, Certainty::Level::measured);
  EXPECT_EQ(level("comm").why, "Medians.");
  disturb(record, 1.9);
  EXPECT_EQ(level("comm").level, Certainty::Level::disturbed);
  EXPECT_EQ(level("comm").why, "Medians. Beside other work: 1 of 1 row.");
  EXPECT_EQ(level("attention").level, Certainty::Level::measured);
  EXPECT_EQ(level("").level, Certainty::Level::disturbed) << "of all rows";
}

// The engine decides neither; the report shows which of the two is worth measuring again.
TEST(ReportCertainty, AFactorOfThreeInDoubtIsNotAsUndecidedAsOnePercent) {
  const auto section = [](double naive_ms, double other_cores) {
    std::vector<Record> records = two_rows(naive_ms, 1);
    for (Record& record : records) disturb(record, other_cores);
    return *find_section(report_of_all(records), "attention");
  };
  EXPECT_EQ(section(3, 0).certainty.level, Certainty::Level::decided);
  const ReportSection apart = section(3, 1.5), close = section(1.01, 1.5);
  EXPECT_EQ(apart.certainty.level, Certainty::Level::disturbed) << apart.certainty.why;
  EXPECT_TRUE(has(apart.certainty.why, "all far apart, the machine in doubt"))
      << apart.certainty.why;
  EXPECT_TRUE(has(apart.answer, "and in 2 of them it leads by 3.00x or more")) << apart.answer;
  EXPECT_TRUE(has(apart.tables.at(0).rows.at(0).at(6).text, "yet far apart"));
  EXPECT_NE(close.certainty.level, Certainty::Level::disturbed) << close.certainty.why;
  EXPECT_FALSE(has(close.answer, "leads by")) << close.answer;
}

TEST(ReportCertainty, ReasonsThatDifferInFiguresAreOne) {
  Reasons reasons;
  reasons.add("other processes used 1.2 of 2 processors beside one of them");
  reasons.add("other processes used 1 of 2 processors beside one of them");
  reasons.add("too few samples: 3, and 6 are needed");
  EXPECT_EQ(
      reasons.text(),
      "other processes used 1.2 of 2 processors beside one of them; too few samples: 3, and 6 "
      "are needed");
}

TEST(ReportComparison, LargeDifferencesInDoubtHaveAMarkOfTheirOwn) {
  std::vector<Record> base = two_rows(1, 1), next = two_rows(3, 1.01);
  for (Record& record : next) disturb(record, 1.5);
  ReportInput input{.records = next};
  input.sides = {
      {.name = "b against a", .comparison = compare_records(base, next, {}), .base = base}};
  const ReportSection section = comparison_section(report_context(input));
  EXPECT_TRUE(has(section.answer,
                  "Nothing is decided: of 4 comparisons 4 are UNCLEAR (2 of them far apart)."))
      << section.answer;
  EXPECT_TRUE(has(section.answer, " In all of them a slowdown of 50 % would have been seen."))
      << section.answer;
  EXPECT_TRUE(has(section.answer, "The largest difference, in doubt because other processes used"))
      << section.answer;
  const Chart& chart = section.views.at(0).charts.at(0);
  ASSERT_EQ(chart.series.size(), 2u);
  EXPECT_TRUE(chart.series[0].name.starts_with("UNCLEAR, yet far apart"));
  EXPECT_EQ(chart.series[1].name, "UNCLEAR, too close");
  EXPECT_NE(chart.series[0].colour, chart.series[1].colour);
  EXPECT_TRUE(has(chart.categories.at(0), "naive")) << "what is far apart comes first";
}

TEST(ReportMemory, WhatWasPredictedIsNotSaidToBeMeasured) {
  Record record =
      attention_record({.implementation = "naive", .seq_len = 16384, .status = Status::oom});
  record.memory.predicted_peak = Bytes{int64_t{24} << 30};
  Record runs = attention_record({.implementation = "flash", .seq_len = 16384});
  runs.memory.peak = Bytes{5 << 20};
  const auto report = [&] { return report_of_all({record, runs}); };
  const auto figure = [](const ReportDocument& document, const char* what) {
    return std::ranges::any_of(document.figures,
                               [&](const KeyFigure& each) { return each.what == what; });
  };
  record.error = "out of memory";
  EXPECT_TRUE(figure(report(), "ran out of memory"));
  EXPECT_EQ(find_section(report(), "memory")->certainty.level, Certainty::Level::measured);

  record.error = "the predicted peak of 24.0 GiB is above the budget of 21.6 GiB; not tried";
  EXPECT_TRUE(figure(report(), "would not fit (predicted)"));
  EXPECT_FALSE(figure(report(), "ran out of memory"));
  const ReportSection memory = *find_section(report(), "memory");
  EXPECT_EQ(memory.certainty.level, Certainty::Level::counted);
  EXPECT_TRUE(memory.answer.starts_with(
      "naive would not fit at S 16384: the predicted peak of 24.0 GiB is above the "
      "budget of 21.6 GiB"))
      << memory.answer;
  EXPECT_EQ(memory.tables.at(0).rows.at(0).back().text, "prediction");
}

// A row that no kernel serves did not fit, nor did it run out of memory.
TEST(ReportMemory, AllSizesFitOnlyIfAllRan) {
  std::vector<Record> records = {attention_record({.implementation = "naive"}),
                                 attention_record({.implementation = "flash"})};
  for (Record& record : records) record.memory.peak = Bytes{1 << 20};
  EXPECT_TRUE(
      find_section(report_of_all(records), "memory")->answer.starts_with("All sizes fit. At S "));
  records[1].status = Status::unsupported;
  EXPECT_TRUE(find_section(report_of_all(records), "memory")
                  ->answer.starts_with("No size ran out of memory. At S "));
}

TEST(ReportFrontier, TheBudgetIsInTheAnswerAndNamesThePicture) {
  Record record = attention_record({.implementation = "naive"});
  record.study = "frontier";
  record.series.clear();
  record.settings = {{"memory_budget_bytes", 256 << 20}};
  record.machine.memory_total = Bytes{int64_t{31} << 30};
  record.metrics = Json{{"seq_len", 4608}, {"first_oom_seq_len", 4736}};
  const ReportSection section = *find_section(report_of_all({record}), "frontier");
  EXPECT_TRUE(section.answer.starts_with(
      "naive up to S 4608 within a budget of 256 MiB, of the 31.0 GiB of the machine (d 64, heads "
      "1, fp32 on cpu, batch 8)."))
      << section.answer;
  EXPECT_TRUE(has(section.views.at(0).charts.at(0).title, "a budget of 256 MiB"));
}

Record profile_record(const char* implementation, double untraced_ms) {
  Record record = attention_record({.implementation = implementation});
  record.study = "profile";
  record.series.clear();
  record.workload = {{"of", "model"},   {"model_size", "custom"}, {"context_length", 128},
                     {"batch_size", 1}, {"precision", "fp32"},    {"d_model", 256},
                     {"layers", 4},     {"num_params", 6293760},  {"scenario", "full-step"}};
  const Json fold = {{"key", "gemm"}, {"phase", "forward"}, {"total_ms", 100}, {"share", 0.7}};
  record.metrics = Json{{"untraced_step_ms", untraced_ms},
                        {"traced_step_ms", 165},
                        {"device_time", {{"busy_ms", 163}}},
                        {"folds", {{"category", {fold}}, {"kernel", {fold}}}}};
  return record;
}

Record model_row(const char* implementation, double ms) {
  Record record = attention_record({.implementation = implementation});
  record.study = "model";
  record.workload = {{"model_size", "small"},
                     {"context_length", 128},
                     {"precision", "fp32"},
                     {"batch_size", 1},
                     {"num_params", 128625408}};
  record.series = {series_of("full_step", {ms, ms, ms, ms, ms, ms})};
  return record;
}

// Runs that differ by no more than drift over hours have no ratio to tell.
TEST(ReportModel, RungsOfTheSameTimeAreAsFast) {
  for (const auto& [compiled_ms, words] :
       {std::pair(98.0, "where vanilla takes 100 ms, as fast"), {50.0, "ms, 2.00x as fast"}}) {
    std::vector<Record> runs;
    for (const auto& [mode, ms] : {std::pair("vanilla", 100.0), {"compiled", compiled_ms}})
      for (int run = 1; run <= 5; ++run) {
        runs.push_back(model_row(mode, ms));
        runs.back().run = run;
      }
    const ReportSection section = *find_section(report_of_all(runs_merged(runs)), "model");
    EXPECT_TRUE(has(section.answer, words)) << section.answer;
  }
}

// A step has three times: untraced, traced, and in kernels.
TEST(ReportProfile, SaysWhichTimeIsWhichAndWhereSectionsDisagree) {
  std::vector<Record> records = {profile_record("vanilla", 172), profile_record("compiled", 136)};
  ReportSection section = *find_section(report_of_all(records), "profile");
  for (const char* part :
       {"172 ms untraced, the time to quote", "165 ms traced", "163 ms in kernels, the bars"})
    EXPECT_TRUE(has(section.certainty.why, part)) << section.certainty.why;
  EXPECT_TRUE(section.views.empty() ||
              section.views.at(0).name.starts_with("4 layers, d 256, context 128"));
  EXPECT_TRUE(has(section.answer, "compiled takes 136 ms where vanilla takes 172 ms"))
      << section.answer;
  EXPECT_FALSE(has(section.answer, "Whole transformers")) << section.answer;

  records.push_back(model_row("vanilla", 1700));
  records.push_back(model_row("compiled", 1900));
  section = *find_section(report_of_all(records), "profile");
  EXPECT_TRUE(has(section.answer,
                  "another model than under Whole transformers, where it is the other way round, "
                  "1.90 s against 1.70 s"))
      << section.answer;
}

Record ddp_row(const char* launcher, const char* fingerprint) {
  Record record = attention_record({.implementation = "flat"});
  record.study = "ddp";
  record.workload = {{"model_size", "small"}, {"precision", "fp32"}, {"mode", "compiled"},
                     {"context_length", 64},  {"batch_size", 2},     {"ranks", 2},
                     {"backend", "gloo"}};
  record.settings = {{"threads", 1}, {"launcher", launcher}};
  record.machine.fingerprint = fingerprint;
  record.series = {series_of("step", {8, 8, 8, 8, 8, 8}), series_of("exposed", {2, 2, 2, 2, 2, 2})};
  return record;
}

TEST(ReportDdp, ViewsThatDifferInLauncherOrMachineHaveNamesOfTheirOwn) {
  const auto names = [](std::vector<Record> records) {
    std::vector<std::string> out;
    const ReportDocument document = report_of_all(std::move(records));
    for (const ReportView& view : find_section(document, "ddp")->views)
      out.push_back(view.name.substr(view.name.find(" by gloo")));
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({ddp_row("torchrun", "m1")}), Names{" by gloo"});
  EXPECT_EQ(names({ddp_row("mpirun", "m1"), ddp_row("torchrun", "m1")}),
            (Names{" by gloo, by mpirun", " by gloo, by torchrun"}));
  EXPECT_EQ(names({ddp_row("mpirun", "m1"), ddp_row("mpirun", "m2")}),
            (Names{" by gloo, machine m1", " by gloo, machine m2"}));
}

// A page is read on other machines, where the folders that all files share mean nothing.
TEST(ReportPaths, AreShownFromWhereTheyDiffer) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(short_paths({}), Paths{});
  EXPECT_EQ(short_paths({"/data/of/one/results/a.jsonl"}), Paths{"a.jsonl"});
  EXPECT_EQ(short_paths({"/data/of/one/x/a.jsonl", "/data/of/one/xy/a.jsonl"}),
            (Paths{"x/a.jsonl", "xy/a.jsonl"}));
  EXPECT_EQ(short_paths({"a.jsonl", "b.jsonl"}), (Paths{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(short_paths({"/r/a", "/r/a"}), (Paths{"a", "a"}));
  EXPECT_EQ(short_paths({"", "/", "//"}), (Paths{"", "/", "//"}));
  const ReportDocument document =
      make_report({.records = {attention_record({})},
                   .sources = {"/data/of/one/study/a/a.jsonl", "/data/of/one/study/b/b.jsonl"},
                   .made_by = "a test"});
  EXPECT_TRUE(has(document.footer, "from a/a.jsonl, b/b.jsonl.")) << document.footer;
  EXPECT_FALSE(has(to_html(document), "/data/of/one"));
}

}  // namespace
}  // namespace ridgeline

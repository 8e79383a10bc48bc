// Sentences of a report: winners, where memory ends, advice, ceilings, and sections left out.
#include "report/page/document.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <set>

#include "measure/test_support.h"
#include "report/page/answers.h"
#include "report/page/axis.h"
#include "report/page/markdown.h"
#include "report/page/palette.h"
#include "report/page/rows.h"
#include "report/page/svg_chart.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

std::string all_of(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence + "\n";
  return text;
}

std::vector<std::string> section_ids(const ReportDocument& document) {
  std::vector<std::string> ids;
  for (const ReportSection& section : document.sections) ids.push_back(section.id);
  return ids;
}

// Makes a report with the sections of all studies.
ReportDocument report_of(ReportInput input) {
  input.sections = report_sections();
  input.unchecked = unchecked_studies();
  return make_report(input);
}

// They are the same in every report, whatever other rows it has and in whatever order.
TEST(ReportColours, NamesThatAreOftenSideBySideHaveTheirOwn) {
  const char* names[] = {"naive", "flash", "compiled", "vanilla",
                         "tiled", "simd",  "library",  "fused"};
  ReportInput input;
  for (const char* probe : {"copy", "triad", "load", "fma", "L1", "L2", "L3"}) {
    input.records.push_back(attention_record({.implementation = probe}));
    input.records.back().study = "roofline";
  }
  for (const char* name : names)
    input.records.push_back(attention_record({.implementation = name}));
  input.records.push_back(attention_record({.implementation = "mine"}));
  const ReportContext many = report_context(input);
  std::set<int> colours = {many.colour("mine")};
  for (const char* name : names) {
    colours.insert(many.colour(name));
    const ReportInput alone{.records = {attention_record({.implementation = name})}};
    EXPECT_EQ(report_context(alone).colour(name), many.colour(name)) << name;
  }
  EXPECT_EQ(colours.size(), 9u);
  EXPECT_LT(*colours.rbegin(), static_cast<int>(implementation_colours().size()));
}

TEST(Report, SaysWhoWinsByHowMuchAndWhatToDo) {
  const ReportDocument document = report_of(
      {.records = {
           attention_record(
               {.implementation = "naive", .seq_len = 256, .forward_ms = 10, .backward_ms = 20}),
           attention_record(
               {.implementation = "flash", .seq_len = 256, .forward_ms = 20, .backward_ms = 40}),
           attention_record(
               {.implementation = "naive", .seq_len = 1024, .forward_ms = 160, .backward_ms = 320}),
           attention_record({.implementation = "flash",
                             .seq_len = 1024,
                             .forward_ms = 20,
                             .backward_ms = 40})}});
  const std::string text = all_of(document.summary);
  EXPECT_HAS(text, "use naive at S 256, and flash at S 1024.");
  EXPECT_HAS(text, "of 2 sizes: flash at 1 and naive at 1");
  EXPECT_HAS(text,
             "2.00x as fast (geometric mean over 2 sizes; from 2.00x slower at S 256 to "
             "8.00x as fast at S 1024)");
}

TEST(Report, WhatTheEngineDoesNotDecideHasNoWinner) {
  std::vector<Record> records = {
      attention_record({.implementation = "naive", .forward_ms = 10.00}),
      attention_record({.implementation = "flash", .forward_ms = 10.01})};
  for (Record& record : records) record.merged_runs = 7;
  const ReportDocument document = report_of({.records = records});
  const std::string text = all_of(document.summary);
  EXPECT_HAS(text, "fastest forward, of 1 sizes: several as fast at 1");
  EXPECT_HAS(text, "flash is as fast (1.00x, S 256)");
}

// Returns the sentence with the advice, or an empty string.
std::string what_to_do(std::vector<Record> records) {
  for (const std::string& sentence : report_of({.records = std::move(records)}).summary)
    if (sentence.starts_with("What to do")) return sentence;
  return "";
}

// A row of each; flash takes `slower` times as long.
std::vector<Record> naive_and_flash(int seq_len, int d_model, double slower) {
  return {attention_record({.implementation = "naive",
                            .seq_len = seq_len,
                            .d_model = d_model,
                            .forward_ms = 10,
                            .backward_ms = 20}),
          attention_record({.implementation = "flash",
                            .seq_len = seq_len,
                            .d_model = d_model,
                            .forward_ms = 10 * slower,
                            .backward_ms = 20 * slower})};
}

std::vector<Record> operator+(std::vector<Record> a, const std::vector<Record>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A comparison without a verdict: flash has too few samples.
std::vector<Record> undecided(int seq_len) {
  std::vector<Record> records = naive_and_flash(seq_len, 64, 0.5);
  for (Series& series : records[1].series) series = series_of(series.name, {5, 5, 5});
  return records;
}

TEST(Report, AdvisesOneForEveryLengthOnlyIfItIsNeverBeaten) {
  EXPECT_EQ(what_to_do(naive_and_flash(256, 16, 0.5) + naive_and_flash(256, 64, 0.5)),
            "What to do: use flash at every length compared here.");
  // Widths disagree, so that no length has a rule, whichever width has more lengths.
  const std::vector<Record> narrow = naive_and_flash(256, 16, 0.5) + naive_and_flash(1024, 16, 0.5);
  for (const std::vector<Record>& wide :
       {naive_and_flash(256, 64, 2) + naive_and_flash(1024, 64, 2), naive_and_flash(256, 64, 2)})
    EXPECT_EQ(what_to_do(narrow + wide),
              "What to do: no implementation wins everywhere; choose by size from the table of all "
              "rows.");
  // Phases disagree.
  std::vector<Record> phases = naive_and_flash(256, 64, 2);
  phases[1].series[0] = series_of("forward", std::vector<double>(9, 5));
  EXPECT_HAS(what_to_do(phases), "no implementation wins everywhere");
  EXPECT_EQ(what_to_do(naive_and_flash(256, 64, 1)), "") << "nothing is known, nothing is advised";
}

// There is no advice unless most of its comparisons are decided.
TEST(Report, AdvisesOnlyWhatMostComparisonsDecide) {
  const std::vector<Record> most =
      naive_and_flash(256, 64, 0.5) + naive_and_flash(512, 64, 0.5) + undecided(1024);
  EXPECT_EQ(what_to_do(most),
            "What to do: use flash at every length compared here (2 of 6 cases are "
            "undecided).");
  const std::vector<Record> few = most + undecided(2048) + undecided(4096);
  EXPECT_EQ(what_to_do(few),
            "What to do: too little is decided for a rule: 6 of 10 cases are undecided.");
  EXPECT_EQ(what_to_do(undecided(256) + undecided(512)), "");
}

TEST(Report, AdviceDoesNotReachBeyondTheLengthsCompared) {
  const std::vector<Record> records = naive_and_flash(256, 64, 2) + naive_and_flash(512, 64, 2) +
                                      naive_and_flash(1024, 64, 0.5) +
                                      naive_and_flash(4096, 64, 0.5);
  EXPECT_EQ(what_to_do(records),
            "What to do: use naive from S 256 to 512, and flash from S 1024 to 4096.");
}

TEST(Report, AdvisesWhatStillRunsWhereMemoryEnds) {
  std::vector<Record> records = naive_and_flash(256, 64, 2) + naive_and_flash(4096, 64, 2);
  records[2] =
      attention_record({.implementation = "naive", .seq_len = 4096, .status = Status::oom});
  EXPECT_EQ(what_to_do(records), "What to do: use naive at S 256, and flash at S 4096.");
  for (const Status status : {Status::skipped, Status::invalid}) {
    records[2].status = status;
    EXPECT_EQ(what_to_do(records), "What to do: use naive at every length compared here.")
        << "a row that was not measured well is no victory of the other";
  }
}

// "The fastest" is FASTER than every other by the verdict engine.
TEST(Report, TheFastestIsFasterThanEveryOther) {
  std::vector<Record> records = naive_and_flash(256, 64, 0.5);
  records.push_back(
      attention_record({.implementation = "compiled", .forward_ms = 5.01, .backward_ms = 30}));
  std::string text = all_of(report_of({.records = records}).summary);
  EXPECT_LACKS(text, "is the fastest forward");
  EXPECT_HAS(text, "flash is the fastest backward at the one size");
  records.back() =
      attention_record({.implementation = "compiled", .forward_ms = 9, .backward_ms = 30});
  text = all_of(report_of({.records = records}).summary);
  EXPECT_HAS(text, "flash is the fastest forward at the one size");
}

// Fewer than six samples have no 95 % interval, however close they are.
TEST(Report, FewSamplesHaveNoWinner) {
  for (const size_t count : {1, 5, 6}) {
    std::vector<Record> records = naive_and_flash(256, 64, 0.5);
    for (Record& record : records)
      for (Series& series : record.series)
        series = series_of(series.name, std::vector<double>(count, series.samples_ms[1]));
    const std::string text = all_of(report_of({.records = records}).summary);
    EXPECT_EQ(text.find("flash is the fastest forward") != std::string::npos, count == 6) << text;
    EXPECT_EQ(text.find("undecided at 1") == std::string::npos, count == 6) << text;
    EXPECT_EQ(text.find(fmt::format("why comparisons are undecided: too few samples: {}", count)) ==
                  std::string::npos,
              count == 6)
        << text;
    EXPECT_LACKS(text, "too close");
    EXPECT_EQ(what_to_do(records).empty(), count != 6) << text;
  }
}

// The same holds for every sentence and figure with a ratio, in any study.
TEST(Report, FewSamplesHaveNoSpeedup) {
  for (const char* study : {"attention", "kernel", "model"})
    for (const size_t count : {3, 6}) {
      std::vector<Record> records = naive_and_flash(256, 64, 0.5);
      for (Record& record : records) {
        record.study = study;
        for (Series& series : record.series)
          series = series_of(series.name, std::vector<double>(count, series.samples_ms[1]));
      }
      const ReportDocument document = report_of({.records = records});
      const std::string text = all_of(document.summary);
      EXPECT_EQ(text.find(" is 2.00x as fast") != std::string::npos, count == 6) << text;
      EXPECT_EQ(text.find(" is undecided") != std::string::npos, count == 3) << text;
      const bool figure = std::any_of(document.figures.begin(), document.figures.end(),
                                      [](const KeyFigure& each) { return each.value == "2.00x"; });
      EXPECT_EQ(figure, count == 6 && study != std::string_view("model"));
    }
}

TEST(Report, SaysWhereMemoryEndsAndWhoStillRuns) {
  Record oom =
      attention_record({.implementation = "naive", .seq_len = 4096, .status = Status::oom});
  oom.memory.predicted_peak = Bytes{int64_t{3} << 30};
  Record runs = attention_record({.implementation = "flash", .seq_len = 4096});
  runs.memory.peak = Bytes{5 << 20};
  const ReportDocument document = report_of({.records = {oom, runs}});
  EXPECT_HAS(all_of(document.summary),
             "Memory ends for naive at S 4096, where it would need 3.00 GiB; "
             "flash runs there in 5.00 MiB.")
      << all_of(document.summary);
}

TEST(Report, SaysWhoNeedsTheLeastMemoryAtTheLongestLength) {
  std::vector<Record> records;
  for (const auto& [name, mebibytes] : {std::pair("naive", 96), {"flash", 2}, {"compiled", 4}}) {
    records.push_back(attention_record({.implementation = name}));
    records.back().memory.peak = Bytes{int64_t{mebibytes} << 20};
  }
  std::string text = all_of(report_of({.records = records}).summary);
  EXPECT_HAS(text, "At S 256 flash needs 2.00 MiB where naive needs 96.0 MiB: 48.0x less.");
  records[0].memory.peak = Bytes{1 << 20};
  text = all_of(report_of({.records = records}).summary);
  EXPECT_HAS(text, "At S 256 none needs less memory than naive: 1.00 MiB.");
}

TEST(Report, SaysWhatWasCheckedAndWhatWasNot) {
  std::vector<Record> records = naive_and_flash(256, 64, 0.5);
  EXPECT_HAS(all_of(report_of({.records = records}).summary),
             "Checked: none of 2 measured rows, so nothing says");
  records[0].verification = {true, "whole tensors", "fp64", {{"output", 1e-6, 4e-6}}};
  records.push_back(attention_record({.implementation = "fma"}));
  records.back().study = "roofline";  // a probe has no result to check
  EXPECT_HAS(all_of(report_of({.records = records}).summary),
             "Checked: 1 of 2 measured rows; the largest error is 25 % of its tolerance.");
}

// The category of a missing bar says why.
TEST(Report, BarsThatAreMissingHaveAReason) {
  for (const char* study : {"attention", "model"}) {
    std::vector<Record> records = naive_and_flash(256, 64, 2) + naive_and_flash(4096, 64, 2);
    records[2] =
        attention_record({.implementation = "naive", .seq_len = 4096, .status = Status::oom});
    for (Record& record : records) {
      record.study = study;
      record.workload["context_length"] = record.workload["seq_len"];
    }
    const ReportDocument document = report_of({.records = records});
    int charts = 0;
    for (const ReportSection& section : document.sections)
      for (const ReportView& view : section.views)
        for (const Chart& chart : view.charts) {
          if (chart.id.find("speedup") == std::string::npos) continue;
          ++charts;
          ASSERT_EQ(chart.categories.size(), 2u);
          EXPECT_LACKS(chart.categories[0], "OOM");
          EXPECT_TRUE(chart.categories[1].ends_with(", naive OOM")) << chart.categories[1];
        }
    EXPECT_GT(charts, 0) << study;
  }
}

// The list of answers shows one sentence of each, which must not be cut.
TEST(Report, TheFirstSentenceOfAnAnswerIsWhole) {
  EXPECT_EQ(first_sentence("Short. Then more."), "Short. Then more.");
  EXPECT_EQ(first_sentence("Of 100 passes 18 are bound by arithmetic, 3 by their start, 79 by "
                           "their own code; the closest reaches 64.5 % of its roof. And more."),
            "Of 100 passes 18 are bound by arithmetic, 3 by their start, 79 by their own code; the "
            "closest reaches 64.5 % of its roof.");
  EXPECT_EQ(first_sentence("All sizes fit. At S 64 naive needs most, 2 MiB. And more."),
            "All sizes fit. At S 64 naive needs most, 2 MiB.");
  EXPECT_EQ(first_sentence("It holds so far (a: b; c. d) and ends. So."),
            "It holds so far (a: b; c. d) and ends.");
}

// The fastest is compared with each rival separately: a tie with one rival does not make the
// difference to another undecided.
TEST(Report, TheFastestIsToldBesideEachOfItsRivals) {
  std::vector<Record> records = naive_and_flash(4096, 16, 0.25);
  records.push_back(attention_record({.implementation = "compiled",
                                      .seq_len = 4096,
                                      .d_model = 16,
                                      .forward_ms = 2.6,
                                      .backward_ms = 5.2}));
  const ReportDocument document = report_of({.records = records});
  const auto section = std::ranges::find(document.sections, "attention", &ReportSection::id);
  ASSERT_NE(section, document.sections.end());
  EXPECT_EQ(first_sentence(section->answer),
            "At S 4096, by the medians, flash takes 2.50 ms forward, 4.00x as fast as naive "
            "(decided) and 1.04x as fast as compiled (undecided).");
  EXPECT_EQ(section->certainty.level, Certainty::Level::partly);
  EXPECT_TRUE(std::ranges::any_of(document.figures, [](const KeyFigure& figure) {
    return figure.value == "4.00x" && figure.what == "flash over naive, forward";
  })) << "all of its comparisons are decided";
  EXPECT_TRUE(section->certainty.why.starts_with(
      "2 of 4 comparisons are undecided: of one run each, differences below 50 % cannot be seen."))
      << section->certainty.why;
}

TEST(Report, LeavesOutSectionsWithoutData) {
  EXPECT_TRUE(report_of({}).sections.empty());
  // A foreign implementation has no graph, so that its memory is unknown.
  EXPECT_EQ(section_ids(report_of({.records = {attention_record({.implementation = "mine"})}})),
            (std::vector<std::string>{"attention", "trust", "rows", "machine"}));
}

TEST(Report, AStudyThatNobodyKnowsStillHasItsRowsAndCommands) {
  Record record = attention_record({});
  record.study = "something new";
  record.workload = {{"size", 3}, {"other", "x"}};
  record.command = "ridgeline something --size 3";
  Record second = record;
  second.workload["size"] = 4;
  const ReportDocument document = report_of({.records = {record, second}});
  const auto rows = std::ranges::find(document.sections, "rows", &ReportSection::id);
  ASSERT_NE(rows, document.sections.end());
  const ReportTable& table = rows->tables.front();
  EXPECT_EQ(table.title, "something new (cpu, other x)");
  EXPECT_EQ(table.columns[1], "size");
  EXPECT_EQ(table.details.front().front().second, record.command);
}

// The memory of a model at its peak is a stacked bar; invalid values are left out.
TEST(Report, ShowsWhereTheMemoryOfAModelGoes) {
  Record record = attention_record({});
  record.study = "model";
  record.implementation = "compiled";
  record.status = Status::oom;
  record.workload = {{"model_size", "xl"}, {"context_length", 512}, {"precision", "fp32"}};
  record.metrics = {{"forward", {{"at_peak", {{"parameters_bytes", 1}}}}},
                    {"full_step",
                     {{"at_peak",
                       {{"parameters_bytes", 100},
                        {"optimizer_state_bytes", 200},
                        {"gaps_bytes", -1},
                        {"data_bytes", "many"},
                        {"workspace_bytes", 0}}}}}};
  const ReportDocument document = report_of({.records = {record}});
  const Chart* found = nullptr;
  for (const ReportSection& section : document.sections)
    for (const ReportView& view : section.views)
      for (const Chart& chart : view.charts)
        if (chart.id == "model-memory-by-kind") found = &chart;
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->categories,
            std::vector<std::string>{"xl, context 512, compiled (does not fit)"});
  ASSERT_EQ(found->series.size(), 2u);
  EXPECT_EQ(found->series[1].name, "optimizer state");
  EXPECT_EQ(found->series[1].points.at(0).y, 200);
}

TEST(Report, OfRowsMeasuredTwiceTheLaterOneCounts) {
  Record old = attention_record({.forward_ms = 1}), later = attention_record({.forward_ms = 7});
  old.time = "2026-01-01T00:00:00Z";
  later.time = "2026-01-02T00:00:00Z";
  for (const auto& records : {std::vector{old, later}, std::vector{later, old}}) {
    const ReportDocument document = report_of({.records = records});
    const Chart& chart = document.sections.front().views.front().charts.front();
    EXPECT_EQ(chart.series.front().points.front().y, 7);
    EXPECT_HAS(document.footer, "1 row measured again later is not shown");
  }
}

TEST(Report, AllShapesHoldTheSameNumbers) {
  std::vector<Record> records;
  for (const int seq_len : {256, 512})
    records.push_back(attention_record({.seq_len = seq_len, .forward_ms = 1.25}));
  const ReportDocument document = report_of({.records = records});
  EXPECT_HAS(to_markdown(document), "1.25 ms");
  const Chart& chart = document.sections.front().views.front().charts.front();
  EXPECT_EQ(chart_table(chart).rows.size(), 2u);
  const std::string svg = to_svg(chart, "<caption>");
  EXPECT_HAS(svg, "&lt;caption&gt;");
  EXPECT_LACKS(svg, "nan");
}

TEST(SvgChart, StepsHoldTheirLevelUntilTheNextPoint) {
  Chart chart{.id = "levels", .title = "Levels", .x = {.min = 0, .max = 2}, .y = {.max = 2}};
  const std::vector<ChartPoint> points = {{0, 1, "one"}, {1, 2, "two"}, {2, 0, "none"}};
  chart.series = {{.name = "below", .mark = ChartSeries::Mark::area, .points = points},
                  {.name = "line", .mark = ChartSeries::Mark::steps, .points = points}};
  const std::string svg = to_svg(chart, "");
  EXPECT_HAS(svg, "<polygon");
  const size_t line = svg.find("<polyline points=\"");
  ASSERT_NE(line, std::string::npos) << svg;
  const std::string text = svg.substr(line, svg.find('"', line + 18) - line);
  EXPECT_EQ(std::count(text.begin(), text.end(), ','), 5) << "two corners more than points" << text;
  EXPECT_LACKS(svg, "<circle") << "no marks at points";
  EXPECT_EQ(chart_table(chart).rows.size(), 6u);
  chart.numbers = Table{.title = "few", .columns = {"moment"}, .rows = {{"the peak"}}};
  EXPECT_EQ(chart_table(chart).rows.size(), 1u);
}

// Once every dot copied its series. The margin is twice what proportional time needs.
TEST(SvgChart, TakesTimeInProportionToItsDots) {
  const auto least_time = [](int dots) {
    Chart chart{.kind = Chart::Kind::dots, .x = {}, .y = {.max = 2}};
    chart.series = {{.name = "vanilla"}};
    for (int i = 0; i < dots; ++i) {
      chart.categories.push_back(fmt::format("context {}", i));
      chart.series[0].points.push_back({static_cast<double>(i), 1, fmt::format("{} ms", i)});
    }
    std::clock_t least = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      EXPECT_HAS(to_svg(chart, ""), "<circle");
      least = std::min(least, std::clock() - start);
    }
    return least;
  };
  EXPECT_LT(least_time(4000), 8 * least_time(1000));
}

TEST(ReportChart, CellsDoNotRepeatWhatTheirHeadSays) {
  Chart chart{.x = {.label = "sequence length"}};
  chart.series = {{.name = "flash",
                   .points = {{256, 1, "S 256, 848 us (833 us to 860 us within-run)"},
                              {1e6, 2, "S 1000000, 2 ms"}}}};
  const Table table = chart_table(chart);
  EXPECT_EQ(table.columns.at(0), "sequence length; intervals within-run");
  EXPECT_EQ(table.rows.at(0), (std::vector<std::string>{"256", "848 us (833 us to 860 us)"}));
  EXPECT_EQ(table.rows.at(1), (std::vector<std::string>{"1000000", "2 ms"}));
  Chart bars{.kind = Chart::Kind::stacked_bars, .categories = {"naive (would not fit)", "fusion"}};
  bars.series = {{.name = "weights",
                  .points = {{0, 8, "8.00 GiB of naive"}, {1, 2, "fusion -202 ms: from 3 to 2"}}}};
  EXPECT_EQ(chart_table(bars).rows.at(0).at(1), "8.00 GiB");
  EXPECT_EQ(chart_table(bars).rows.at(1).at(1), "-202 ms: from 3 to 2");
}

TEST(SvgChart, TicksHaveRoomLeftOfTheirAxis) {
  for (const char* tick : {"1", "100 GFLOP/s", "a hundred GFLOP/s"}) {
    Chart chart{.y = {.label = "speed", .ticks = {{0.5, tick}}}};
    const std::string svg = to_svg(chart, "");
    const std::string before = "<text x=\"";
    const size_t at = svg.find(fmt::format(">{}<", tick));
    const double end = std::stod(svg.substr(svg.rfind(before, at) + before.size()));
    EXPECT_GT(end - 6.4 * static_cast<double>(std::string_view(tick).size()), 0) << svg;
  }
}

TEST(ReportAxis, TicksLieInTheRangeAndGrowForAnyValues) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> exponent(-25, 25);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> values;
    for (size_t n = random() % 6; n-- > 0;)
      values.push_back(random() % 9 == 0 ? std::nan("") : std::pow(10, exponent(random)));
    for (const Quantity quantity :
         {Quantity::milliseconds, Quantity::bytes, Quantity::length, Quantity::ratio})
      for (const Axis& axis :
           {log_axis("x", quantity, values), linear_axis("x", quantity, values)}) {
        EXPECT_LT(axis.min, axis.max);
        EXPECT_LE(axis.ticks.size(), 12u);
        for (size_t t = 0; t < axis.ticks.size(); ++t) {
          EXPECT_GE(axis.ticks[t].value, axis.min * (1 - 1e-6));
          EXPECT_LE(axis.ticks[t].value, axis.max * (1 + 1e-6));
          if (t > 0) {
            EXPECT_GT(axis.ticks[t].value, axis.ticks[t - 1].value);
          }
        }
      }
  }
}

TEST(ReportFigures, SmallNumbersHaveNoExponent) {
  EXPECT_EQ(figures_text(4030.2), "4030");
  EXPECT_EQ(figures_text(85.31), "85.3");
  EXPECT_EQ(figures_text(0.253), "0.25");
  EXPECT_EQ(figures_text(0.00012), "0.00012");
  EXPECT_EQ(figures_text(0.000051), "0.000051");
  EXPECT_EQ(figures_text(-0.00000512), "-0.0000051");
  EXPECT_EQ(figures_text(0), "0");
}

TEST(Report, OneStudyThatIsLeftOutIsCountedInTheSingular) {
  const auto left_out = [](int studies) {
    ReportInput input;
    for (int study = 0; study < studies; ++study) {
      input.records.push_back(attention_record({}));
      input.records.back().study = fmt::format("study{}", study);
    }
    const ReportDocument document = report_of(input);
    return all_of(std::ranges::find(document.sections, "rows", &ReportSection::id)->sentences);
  };
  EXPECT_EQ(left_out(21), "1 more study is left out.\n");
  EXPECT_EQ(left_out(22), "2 more studies are left out.\n");
}

TEST(ReportAxis, NumbersHaveThreeFiguresAndAUnit) {
  EXPECT_EQ(quantity_text(Quantity::milliseconds, 0.677), "677 us");
  EXPECT_EQ(quantity_text(Quantity::milliseconds, 10.42), "10.4 ms");
  EXPECT_EQ(quantity_text(Quantity::milliseconds, 1030), "1.03 s");
  EXPECT_EQ(quantity_text(Quantity::bytes, 0x1p31), "2.00 GiB");
  EXPECT_EQ(quantity_text(Quantity::ratio, 2), "2.00x");
}

}  // namespace
}  // namespace ridgeline

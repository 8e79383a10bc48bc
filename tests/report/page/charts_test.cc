// Charts of a report: intervals where there are samples, bars from zero, lines that are visible
// though they coincide, a ladder that adds up.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "measure/test_support.h"
#include "report/page/axis.h"
#include "report/page/density.h"
#include "report/page/document.h"
#include "report/page/history.h"
#include "report/page/html_page.h"
#include "report/page/points.h"
#include "report/page/sections.h"
#include "report/page/svg_chart.h"
#include "report/page/svg_picture.h"
#include "report/page/terms.h"
#include "report/terminal/story.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

std::vector<double> around(double ms, int count = 9) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(ms * (1 + 0.01 * (i - count / 2)));
  return samples;
}

// Attention of two implementations, and a model on all rungs of the ladder.
std::vector<Record> both_studies() {
  std::vector<Record> records;
  for (const char* name : {"naive", "flash"})
    for (const int seq_len : {256, 1024, 4096}) {
      Record record = attention_record({.implementation = name, .seq_len = seq_len});
      const double ms = seq_len / 256.0 * (name == std::string_view("naive") ? 2 : 1);
      record.series = {series_of("forward", around(ms)), series_of("backward", around(2 * ms))};
      record.memory.peak = Bytes{int64_t{seq_len} << 10};
      record.cost =
          CostFacts{{4000000, 2000000, Bytes{100000}}, {8000000, 4000000, Bytes{200000}}, "c"};
      records.push_back(std::move(record));
    }
  struct Rung {
    const char* name;
    double ms, launches, bytes;
  };
  for (const Rung& rung : {Rung{"vanilla", 20, 900, 4e9}, Rung{"fused", 12, 300, 3e9},
                           Rung{"flash", 13, 250, 1e9}, Rung{"compiled", 6, 250, 1e9}}) {
    Record record = attention_record({.implementation = rung.name});
    record.study = "model";
    record.device = "cuda";
    record.workload = {
        {"model_size", "small"}, {"context_length", 128}, {"precision", "fp32"}, {"batch_size", 4}};
    record.series = {series_of("forward", around(rung.ms / 3)),
                     series_of("full_step", around(rung.ms))};
    record.metrics = Json{{"full_step", {{"launches", rung.launches}, {"peak_bytes", rung.bytes}}}};
    if (rung.name == std::string_view("compiled"))
      record.metrics->at("full_step")["graph_launches"] = 1;
    records.push_back(std::move(record));
  }
  return records;
}

ReportDocument charts_report(std::vector<Record> records) {
  return make_report({.records = std::move(records),
                      .sections = report_sections(),
                      .unchecked = unchecked_studies()});
}

template <class Visit>
void for_every_chart(const ReportDocument& document, Visit visit) {
  for (const ReportSection& section : document.sections)
    for (const ReportView& view : section.views)
      for (const Chart& chart : view.charts) visit(chart);
}

TEST(ReportCharts, BarsBeginAtZeroOfALinearAxisAndAxesSayWhatIsBetter) {
  int charts = 0;
  for_every_chart(charts_report(both_studies()), [&](const Chart& chart) {
    ++charts;
    using enum Chart::Kind;
    if (chart.kind == bars || chart.kind == stacked_bars || chart.kind == waterfall) {
      EXPECT_FALSE(chart.y.log) << chart.id;
      EXPECT_EQ(chart.y.min, 0) << chart.id;
    }
    EXPECT_NE(chart.y.better, Better::neither) << chart.id;
    EXPECT_FALSE(chart.y.label.empty()) << chart.id;
    EXPECT_HAS(to_svg(chart), "is better)") << chart.id;
  });
  EXPECT_GE(charts, 10);
}

TEST(ReportCharts, PointsOfSamplesHaveIntervalsThatHoldTheirMedians) {
  size_t intervals = 0;
  for_every_chart(charts_report(both_studies()), [&](const Chart& chart) {
    const bool is_timed = chart.id.find("latency") != std::string::npos ||
                          chart.id.find("speedup") != std::string::npos ||
                          chart.id == "model-time" || chart.id == "roofline";
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points) {
        if (is_timed && series.mark != ChartSeries::Mark::line) {
          EXPECT_TRUE(point.has_interval()) << chart.id << " " << series.name;
        }
        if (!point.has_interval()) continue;
        ++intervals;
        EXPECT_LE(point.low, point.y) << chart.id;
        EXPECT_GE(point.high, point.y) << chart.id;
      }
  });
  EXPECT_GT(intervals, 30u);
}

TEST(ReportCharts, OneSampleHasNoInterval) {
  Record record = attention_record({});
  record.series = {series_of("forward", {3})};
  const auto point = timed_point(1, record, "forward");
  ASSERT_TRUE(point);
  EXPECT_FALSE(point->has_interval());
  EXPECT_LACKS(to_svg({.series = {{.points = {*point}}}}), "class=\"w\"");
}

TEST(ReportCharts, ALineOnAnotherOneIsDashedAndNamed) {
  const auto line = [](const char* name, double factor) {
    ChartSeries series{.name = name};
    for (const double x : {1.0, 2.0, 4.0, 8.0})
      series.points.push_back({x, factor * x * x, "text"});
    return series;
  };
  Chart chart{.series = {line("a", 1), line("b", 1.001), line("c", 3)}};
  chart.x = log_axis("x", Quantity::length, std::vector<double>{1, 8});
  chart.y = log_axis("y", Quantity::count, std::vector<double>{1, 192});
  show_coinciding(chart);
  EXPECT_FALSE(chart.series[0].dashed);
  EXPECT_TRUE(chart.series[1].dashed);
  EXPECT_FALSE(chart.series[2].dashed);
  EXPECT_HAS(chart.description, "b lies on a");
  EXPECT_HAS(to_svg(chart), "stroke-dasharray=\"8 6\"");
}

// Goes rung by rung from the lowest to the highest, in time, launches and memory.
TEST(ReportCharts, TheLadderIsAWaterfallThatAddsUp) {
  const ReportDocument document = charts_report(both_studies());
  const auto model = std::ranges::find(document.sections, "model", &ReportSection::id);
  ASSERT_NE(model, document.sections.end());
  EXPECT_HAS(
      model->answer,
      "compiled takes 6.00 ms for a full training step where vanilla takes "
      "20.0 ms, 3.33x as fast; step by step, fusion 1.67x as fast, then flash attention 1.08x "
      "slower (undecided), then launch graph 2.17x as fast. Launches go from 900 to "
      "1 and memory to 25 %.");
  const ReportView& view = model->views.at(0);
  ASSERT_EQ(view.pictures, 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Chart& chart = view.charts[i];
    EXPECT_EQ(chart.kind, Chart::Kind::waterfall);
    EXPECT_EQ(chart.categories, (std::vector<std::string>{"vanilla", "fusion", "flash attention",
                                                          "launch graph", "compiled"}));
    std::vector<double> from(5), to(5);
    for (const ChartSeries& series : chart.series)
      for (const ChartPoint& point : series.points) {
        from[static_cast<size_t>(point.x)] = point.from;
        to[static_cast<size_t>(point.x)] = point.y;
      }
    for (size_t step = 1; step < 4; ++step) EXPECT_EQ(from[step], to[step - 1]) << chart.id;
    EXPECT_EQ(to[3], to[4]) << chart.id;
    EXPECT_EQ(from[4], 0);
  }
  // Single runs of 12 ms and 13 ms are UNCLEAR: the step is neither a gain nor a loss.
  const ChartSeries& unclear = view.charts[0].series.back();
  EXPECT_EQ(unclear.name, "undecided");
  ASSERT_EQ(unclear.points.size(), 1u);
  EXPECT_EQ(unclear.points[0].x, 2);
  for (const ChartSeries& series : view.charts[0].series)
    for (const ChartPoint& point : series.points)
      EXPECT_TRUE(point.has_interval() && point.low <= point.y && point.y <= point.high)
          << series.name << " " << point.x;
  EXPECT_EQ(view.charts[3].id, "model-time") << "one chart for all scenarios";
  EXPECT_EQ(view.charts[3].categories.size(), 2u);
}

// Without a launch graph there is no rung for it: compiled equals flash.
TEST(ReportCharts, TheLadderOfACpuHasNoLaunchGraph) {
  std::vector<Record> records = both_studies();
  for (Record& record : records)
    if (record.study == "model") {
      record.device = "cpu";
      record.metrics->at("full_step").erase("graph_launches");
    }
  const ReportDocument document = charts_report(records);
  const auto model = std::ranges::find(document.sections, "model", &ReportSection::id);
  EXPECT_EQ(model->views.at(0).charts.at(0).categories,
            (std::vector<std::string>{"vanilla", "fusion", "flash attention", "flash"}));
  EXPECT_HAS(model->answer, "A CPU has no launch graph: compiled is flash again, here 6.00 ms.");
}

// The section says what bounds the work in words, and row by row.
TEST(ReportCharts, TheRooflineSaysWhatBoundsAttention) {
  std::vector<Record> records = both_studies();
  for (Record& record : records) {
    record.settings = {{"isa", "avx2"}, {"threads", 2}};
    record.machine.max_clock_mhz = 2000;
  }
  const ReportDocument document = charts_report(records);
  const ReportSection& roofline = document.sections.front();
  EXPECT_HAS(roofline.answer, " Attention forward at S 4096 is bound by ");
  for (const char* name : {"naive ", "flash "}) EXPECT_HAS(roofline.answer, name);
  EXPECT_EQ(std::ranges::count(roofline.terms, "roof", &Term::word), 1);
  const auto table =
      std::ranges::find(roofline.tables, "What bounds each pass", &ReportTable::title);
  ASSERT_NE(table, roofline.tables.end());
  EXPECT_EQ(table->rows.size(), 12u);
  EXPECT_EQ(table->columns.back(), "bound by");
  for (const auto& row : table->rows) EXPECT_FALSE(row.back().text.empty());
  const auto rows = std::ranges::find(document.sections, "rows", &ReportSection::id);
  EXPECT_EQ(std::ranges::count(rows->tables.at(0).columns, "bound by"), 1);
  const Chart& chart = roofline.views.at(0).charts.at(0);
  for (const ChartSeries& series : chart.series)
    EXPECT_EQ(series.work.empty(), series.mark == ChartSeries::Mark::line) << series.name;
}

TEST(SvgText, WrapsWordsAndEndsWithDots) {
  EXPECT_EQ(wrapped_text("one two three", 6.4 * 8, 3),
            (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped_text("one two three four five", 6.4 * 8, 2),
            (std::vector<std::string>{"one two", "three..."}));
  EXPECT_EQ(wrapped_text("abcdefghijklmnop", 6.4 * 8, 3),
            (std::vector<std::string>{"abcdefgh", "ijklmnop"}));
  EXPECT_EQ(wrapped_text("", 100, 2), std::vector<std::string>{""});
}

TEST(ReportSections, AllAskAndAnswerAndExplainAWordOnce) {
  const ReportDocument document = charts_report(both_studies());
  std::set<std::string> explained;
  for (const ReportSection& section : document.sections) {
    EXPECT_TRUE(section.question.ends_with("?")) << section.id;
    EXPECT_FALSE(section.answer.empty()) << section.id;
    for (const Term& term : section.terms) EXPECT_TRUE(explained.insert(term.word).second);
  }
  for (const char* word : {"naive", "flash", "compiled", "intensity"})
    EXPECT_TRUE(explained.contains(word)) << word;
  EXPECT_EQ(document.sections.front().id, "roofline");
}

TEST(ReportSections, CertaintyIsWhatTheEngineDecided) {
  std::vector<Record> records = both_studies();
  const auto level = [&] {
    const ReportDocument document = charts_report(records);
    return std::ranges::find(document.sections, "attention", &ReportSection::id)->certainty;
  };
  EXPECT_EQ(level().level, Certainty::Level::decided) << level().why;
  records[0].series = {series_of("forward", {2, 2}), series_of("backward", {4, 4})};
  EXPECT_EQ(level().level, Certainty::Level::partly) << level().why;
  for (size_t i = 1; i < 3; ++i)
    records[i].series = {series_of("forward", {2, 2}), series_of("backward", {4, 4})};
  EXPECT_EQ(level().level, Certainty::Level::undecided) << level().why;
  EXPECT_HAS(level().why, "too few samples");
}

// An implementation that runs alone is not compared.
TEST(ReportSections, ContestsOfOneAreNotDecided) {
  std::vector<Record> records = both_studies();
  const auto certainty = [&] {
    const ReportDocument document = charts_report(records);
    return std::ranges::find(document.sections, "attention", &ReportSection::id)->certainty;
  };
  EXPECT_EQ(certainty().why, "All 6 comparisons are decided by the verdict engine.");
  const auto run_out = [](Record& record) {
    record.status = Status::oom;
    record.series.clear();
  };
  run_out(records[0]);
  EXPECT_EQ(certainty().why, "All 4 comparisons are decided by the verdict engine.");
  run_out(records[1]);
  run_out(records[2]);
  EXPECT_EQ(certainty().level, Certainty::Level::measured) << certainty().why;
}

TEST(ReportSections, OneWordHasTheMeaningOfItsSection) {
  std::set<std::string> explained;
  for (const char* id : {"ddp", "attention", "gemm", "kernel"}) {
    const std::vector<Term> terms = new_terms({.id = id, .answer = "naive is slow."}, explained);
    ASSERT_EQ(terms.size(), id == std::string_view("kernel") ? 0u : 1u) << id;
    if (!terms.empty()) {
      EXPECT_EQ(terms[0].meaning.starts_with("attention"), id == std::string_view("attention"));
    }
  }
}

TEST(ReportSections, NothingSpeaksForFiguresThatWereNotChecked) {
  Record record = attention_record({.implementation = "flash"});
  record.series = {series_of("forward", around(2))};
  const auto why = [&] {
    const ReportInput input{.records = {record}};
    return trust_section(report_context(input)).certainty.why;
  };
  EXPECT_EQ(why(), "Know that before quoting one.");
  record.verification.checked = true;
  EXPECT_EQ(why(), "Nothing speaks against them.");
  record.status = Status::wrong;
  EXPECT_EQ(why(), "Know that before quoting one.");
}

TEST(ReportSections, AComparisonNamesItsPairAndNothingComparedIsNotDecided) {
  ReportInput input{.records = both_studies()};
  ComparedSide side{.name = "after.jsonl against before.jsonl",
                    .comparison = compare_records(input.records, input.records, {}),
                    .base = input.records};
  input.sides = {{.name = "empty.jsonl against before.jsonl"}};
  const ReportSection nothing = comparison_section(report_context(input));
  EXPECT_EQ(nothing.answer, "");
  EXPECT_LACKS(nothing.sentences.at(0), "decided");
  input.sides = {side};
  EXPECT_LACKS(comparison_section(report_context(input)).answer, "after.jsonl");
  input.sides = {side, side};
  input.sides[1].name = "later.jsonl against before.jsonl";
  const std::string answer = comparison_section(report_context(input)).answer;
  EXPECT_HAS(answer, " (after.jsonl against before.jsonl) ");
}

TEST(Densities, HaveAnAreaOfOne) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::lognormal_distribution<double> times(0, 0.1 + 0.02 * trial);
    std::vector<double> samples(static_cast<size_t>(5 + trial)), at(40000);
    for (double& sample : samples) sample = times(random);
    for (size_t i = 0; i < at.size(); ++i) at[i] = -2 + 0.0005 * static_cast<double>(i);
    const std::vector<double> density = densities_at(samples, at);
    EXPECT_NEAR(0.0005 * std::accumulate(density.begin(), density.end(), 0.0), 1, 0.01);
  }
  EXPECT_TRUE(density_chart("one", std::vector<double>{1, 1, 1}, around(2)).series.empty());
  EXPECT_TRUE(density_chart("few", std::vector<double>{1, 2}, around(2)).series.empty());
  EXPECT_EQ(density_chart("both", around(1), around(2)).series.size(), 2u);
}

TEST(History, ACommitThatChangesAVerdictIsNamed) {
  std::vector<SavedRecord> records;
  int64_t id = 0;
  for (const double ms : {10.0, 10.0, 30.0, 30.0}) {
    ++id;
    for (int run = 1; run <= 5; ++run) {
      Record record = attention_record({.implementation = "flash"});
      record.series = {series_of("forward", around(ms * (1 + 0.001 * run)))};
      record.run = run;
      record.build.git_commit = fmt::format("commit{}", id);
      records.push_back({{id, "main", "2026-01-01", record.build.git_commit, 5}, record});
    }
  }
  const ReportDocument document = history_report({.records = records});
  const ReportSection& section = document.sections.at(0);
  EXPECT_HAS(section.answer, "1 change in 4 savings");
  EXPECT_HAS(section.answer, "SLOWER at commit3");
  const Chart& chart = section.views.at(0).charts.at(0);
  EXPECT_EQ(chart.series.at(0).points.size(), 4u);
  ASSERT_EQ(chart.series.at(1).points.size(), 1u);
  EXPECT_EQ(chart.series[1].points[0].x, 2);
  const std::string& changed = chart.series[0].points[2].text;
  EXPECT_TRUE(changed.ends_with(", SLOWER than the one before (3.000x slower)")) << changed;
  const std::string& same = chart.series[0].points[3].text;
  EXPECT_TRUE(same.ends_with(", the SAME as the one before (1.000x)")) << same;
  EXPECT_HAS(to_svg(chart), "SLOWER 3.00x slower");
}

TEST(History, AnUnclearPointIsNotComparedWithAThan) {
  std::vector<SavedRecord> records;
  for (const double ms : {10.0, 10.5}) {
    Record record = attention_record({.implementation = "flash"});
    record.series = {series_of("forward", around(ms))};
    const auto id = static_cast<int64_t>(records.size()) + 1;
    records.push_back({{id, "main", "2026-01-01", "commit", 1}, record});
  }
  const ReportDocument document = history_report({.records = records});
  const std::string& text =
      document.sections.at(0).views.at(0).charts.at(0).series.at(0).points.at(1).text;
  EXPECT_TRUE(text.ends_with(", UNCLEAR against the one before (1.050x slower)")) << text;
}

TEST(History, OneSavingDecidesNothing) {
  Record record = attention_record({.implementation = "flash"});
  record.series = {series_of("forward", around(2))};
  const std::vector<SavedRecord> records = {{{1, "main", "2026-01-01", "commit1", 1}, record}};
  const ReportDocument document = history_report({.records = records});
  const Certainty& certainty = document.sections.at(0).certainty;
  EXPECT_EQ(certainty.level, Certainty::Level::measured) << certainty.why;
  EXPECT_LACKS(certainty.why, "0 of 0");
}

// With many studies, the first answers and the one on trust are shown, the others folded.
TEST(ReportSections, ManyAnswersAreFoldedButForTheLeadingOnes) {
  ReportDocument document;
  for (const char* id :
       {"roofline", "attention", "frontier", "kernel", "a", "b", "c", "d", "trust"})
    document.sections.push_back(
        {.id = id, .title = id, .question = "Which?", .answer = "This one. More."});
  const std::string html = to_html(document);
  const size_t fold = html.find("<summary>4 more answers</summary>");
  ASSERT_NE(fold, std::string::npos);
  const auto place = [&](const std::string& id) {
    return html.find("<li><a href=\"#" + id + "\">Which?");
  };
  for (const char* id : {"roofline", "attention", "a", "b", "trust"})
    EXPECT_LT(place(id), fold) << id;
  for (const char* id : {"frontier", "kernel", "c", "d"}) {
    EXPECT_NE(place(id), std::string::npos) << id;
    EXPECT_GT(place(id), fold) << id;
  }
}

// The static picture of a timeline has a few labels, each at its highest point.
TEST(SvgChart, OfATimelineAFewNamesAreDrawn) {
  Chart chart{.id = "timeline",
              .series = {{.name = "live", .mark = ChartSeries::Mark::steps}},
              .zooms = true};
  std::vector<double> xs, ys;
  for (int i = 0; i < 40; ++i) {
    ChartPoint& point = chart.series[0].points.emplace_back(ChartPoint{1.0 * i, 1.0 + i, "x"});
    point.label = fmt::format("tensor{}", i / 2);
    xs.push_back(point.x);
    ys.push_back(point.y);
  }
  chart.x = linear_axis("events", Quantity::count, xs);
  chart.y = linear_axis("live", Quantity::bytes, ys);
  const std::string svg = to_svg(chart);
  size_t names = 0;
  for (int i = 0; i < 20; ++i) names += svg.find(fmt::format(">tensor{}<", i)) != svg.npos ? 1 : 0;
  EXPECT_GE(names, 2u);
  EXPECT_LE(names, 8u);
  EXPECT_HAS(svg, ">tensor19<") << "that of the peak";
}

// The axis does not cross names above their rows, as on a phone.
TEST(SvgChart, AnAxisLeavesRoomForNamesAboveTheirRows) {
  Chart chart{.kind = Chart::Kind::bars,
              .id = "bars",
              .categories = {"one", "two"},
              .series = {{.name = "a", .points = {{0, 1, "1"}, {1, 2, "2"}}}}};
  chart.y = linear_axis("times", Quantity::ratio, std::vector<double>{1, 2});
  const auto axes = [&](double width) {
    const std::string svg = to_page_svg(chart, width);
    size_t count = 0;
    for (size_t at = svg.find("class=\"rule"); at != std::string::npos;
         at = svg.find("class=\"rule", at + 1))
      ++count;
    return count;
  };
  EXPECT_EQ(axes(360), axes(900) + 1) << "one piece for each row";
}

TEST(Story, FitsAScreenWhateverTheWidth) {
  const ReportDocument document = charts_report(both_studies());
  for (const size_t width : {40, 80, 120, 400}) {
    const std::string text = story_text(document, width);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 20) << text;
    EXPECT_HAS(text, "Which attention is the fastest at which");
    EXPECT_HAS(text, "How far can these figures be trusted?");
    EXPECT_LACKS(text, "...") << "sentences are whole: " << text;
    std::string words = text;  // without line breaks
    for (size_t at; (at = words.find("\n  ")) != std::string::npos;) words.replace(at, 3, " ");
    EXPECT_HAS(words, "Use flash at every length compared here. [decided]") << text;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      if (text[at] == ' ') {
        EXPECT_LE(end - at, std::max<size_t>(width, 40)) << text.substr(at, end - at);
      }
      at = end + 1;
    }
  }
  EXPECT_EQ(story_text(charts_report({}), 80), "");
}

}  // namespace
}  // namespace ridgeline

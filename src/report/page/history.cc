#include "report/page/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/sort_by.h"
#include "measure/record_text.h"
#include "report/history_lines.h"
#include "report/page/axis.h"
#include "report/page/palette.h"
#include "report/page/points.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

bool is_change(const HistoryPoint& point) {
  return point.against &&
         (point.against->verdict == Verdict::faster || point.against->verdict == Verdict::slower);
}

std::string commit_of(const HistoryPoint& point) {
  const std::string commit = shown(point.saved->record.build.git_commit, 40);
  return commit.empty() ? shown(point.saved->run.saved_at, 10) : commit.substr(0, 9);
}

std::string point_words(const HistoryPoint& point, const ChartPoint& at) {
  std::string text =
      fmt::format("{}, '{}', {}: {}", commit_of(point), shown(point.saved->run.name, 40),
                  shown(point.saved->record.time, 20), at.text);
  if (!point.against || !point.against->verdict) return text;
  const Verdict verdict = *point.against->verdict;
  return fmt::format("{}, {} the one before ({})", text,
                     verdict == Verdict::same      ? "the SAME as"
                     : verdict == Verdict::unclear ? "UNCLEAR against"
                     : verdict == Verdict::faster  ? "FASTER than"
                                                   : "SLOWER than",
                     times_text(point.against->speedup(), 3));
}

std::string name_of(const HistoryLine& line) {
  return shown(fmt::format("{}{}{}", row_text(line.points.front().saved->record),
                           line.phase.empty() ? "" : ": ", line.phase),
               120);
}

// Savings are equidistant along x, in their order, whatever their times are.
Chart line_chart(const HistoryLine& line) {
  Chart chart{.id = "history",
              .title = name_of(line),
              .description =
                  "The median of every saving with its interval, in the order of "
                  "saving; rings mark the points where a verdict changed."};
  const std::string implementation = shown(line.points.front().saved->record.implementation, 60);
  ChartSeries medians{.name = "median",
                      .colour = std::max(0, own_colour(implementation)),
                      .implementation = implementation};
  ChartSeries changes{.name = "verdict changed", .mark = ChartSeries::Mark::rings, .colour = 5};
  std::vector<double> ys;
  for (size_t i = 0; i < line.points.size(); ++i) {
    const HistoryPoint& saved = line.points[i];
    const auto x = static_cast<double>(i);
    chart.x.ticks.push_back({x, commit_of(saved)});
    auto point = timed_point(x, saved.saved->record, line.phase);
    if (!point) continue;
    point->text = point_words(saved, *point);
    ys.push_back(point->y);
    if (is_change(saved)) {
      changes.points.push_back({.x = x, .y = point->y, .text = point->text});
      changes.points.back().label = fmt::format("{} {}", verdict_name(*saved.against->verdict),
                                                times_text(saved.against->speedup()));
    }
    medians.points.push_back(std::move(*point));
  }
  if (medians.points.empty()) return chart;
  chart.series.push_back(std::move(medians));
  if (!changes.points.empty()) chart.series.push_back(std::move(changes));
  chart.x.label = "commit, in the order of saving";
  chart.x.min = -0.5;
  chart.x.max = static_cast<double>(line.points.size()) - 0.5;
  chart.y = log_axis("median time", Quantity::milliseconds, ys, Better::lower);
  return chart;
}

}  // namespace

ReportDocument history_report(const HistoryInput& input) {
  const std::vector<SavedRecord> rows = saved_rows(input.records);
  const std::vector<HistoryLine> lines = history_lines(rows, input.noise);
  ReportSection section{.id = "history",
                        .title = "History",
                        .question = "At which commit did a row become faster or slower?"};
  size_t changed = 0, unclear = 0, judged = 0;
  std::string example;
  std::set<int64_t> savings;
  for (const SavedRecord& saved : input.records) savings.insert(saved.run.id);
  // Rows that changed come first.
  std::vector<const HistoryLine*> order;
  for (const HistoryLine& line : lines) order.push_back(&line);
  sort_by_falling(order, [](const HistoryLine* line) {
    return std::ranges::count_if(line->points, is_change);
  });
  for (const HistoryLine* line : order) {
    for (const HistoryPoint& point : line->points) {
      judged += point.against && point.against->verdict ? 1 : 0;
      unclear += point.against && point.against->verdict == Verdict::unclear ? 1 : 0;
      if (!is_change(point)) continue;
      ++changed;
      if (example.empty())
        example = fmt::format("{} became {} at {} ({})", name_of(*line),
                              verdict_name(*point.against->verdict), commit_of(point),
                              times_text(point.against->speedup()));
    }
    if (Chart chart = line_chart(*line); !chart.series.empty() && section.views.size() < kMostViews)
      section.views.push_back({.name = name_of(*line), .charts = {std::move(chart)}});
  }
  section.answer =
      changed == 0
          ? fmt::format("No verdict changed in {} of {}.", counted(savings.size(), "saving"),
                        counted(lines.size(), "line"))
          : fmt::format("{} in {} of {}; for instance, {}.", counted(changed, "change"),
                        counted(savings.size(), "saving"), counted(lines.size(), "line"), example);
  section.certainty = {
      .level = judged == 0            ? Certainty::Level::measured
               : unclear == 0         ? Certainty::Level::decided
               : 2 * unclear < judged ? Certainty::Level::partly
                                      : Certainty::Level::undecided,
      .why = judged == 0 ? "No line has two savings to compare."
                         : fmt::format("{} of {} steps from one saving to the next are unclear.",
                                       unclear, judged)};
  ReportDocument document{.title = "Ridgeline history",
                          .subtitle = fmt::format("{} of {}.", counted(savings.size(), "saving"),
                                                  counted(lines.size(), "line")),
                          .footer = fmt::format("Made by {} at {} from {}.", input.made_by,
                                                input.made_at, shown(input.source, 200))};
  document.sections.push_back(std::move(section));
  return document;
}

}  // namespace ridgeline

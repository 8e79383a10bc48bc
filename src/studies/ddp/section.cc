#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"
#include "report/page/winners.h"
#include "studies/ddp/rank.h"
#include "studies/ddp/tables.h"

namespace ridgeline {
namespace {

// One bar per strategy: how long it waits for communication, and the rest.
Chart step_chart(const std::vector<const Record*>& rows) {
  constexpr size_t kMostBars = 24;
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "ddp-step",
              .title = "Time of a training step",
              .description =
                  "Median time of the slowest rank's step, one bar per strategy: how long the rank "
                  "that waits longest for communication does so, and the rest."};
  chart.series = {
      {.name = "the rest", .colour = 0, .palette = ChartSeries::Palette::tensors},
      {.name = "exposed communication", .colour = 1, .palette = ChartSeries::Palette::tensors}};
  std::vector<double> totals;
  for (const Record* record : rows) {
    const auto step = median_of(*record, kDdpStep), exposed = median_of(*record, kDdpExposed);
    if (!step || !exposed || !(*step > 0) || chart.categories.size() == kMostBars) continue;
    const auto at = static_cast<double>(chart.categories.size());
    const double waited = std::min(*exposed, *step);
    for (const auto& [series, ms] : {std::pair{0, *step - waited}, {1, waited}})
      if (ms > 0)
        chart.series[static_cast<size_t>(series)].points.push_back(
            {at, ms, quantity_text(Quantity::milliseconds, ms)});
    chart.categories.push_back(shown(strategy_text(*record), 40));
    totals.push_back(*step);
  }
  if (totals.empty())
    chart.series.clear();
  else
    chart.y = linear_axis("time of a step", Quantity::milliseconds, totals, Better::lower);
  return chart;
}

// Whose median is the smallest, how long it waits, and what the engine says of every other
// strategy beside it.
void answer_training(const ReportContext& context, const std::string& place,
                     const std::vector<const Record*>& rows, ReportSection& section) {
  const Record* best = nullptr;
  for (const Record* record : rows)
    if (const auto ms = median_of(*record, kDdpStep);
        ms && (!best || *ms < *median_of(*best, kDdpStep)))
      best = record;
  if (!best) return;
  const auto exposed = median_of(*best, kDdpExposed);
  size_t compared = 0, undecided = 0;
  Reasons reasons;
  for (const Record* record : rows) {
    if (record == best || !median_of(*record, kDdpStep)) continue;
    ++compared;
    const Judgement& judgement = context.verdicts->between(*record, *best, kDdpStep);
    if (judgement.verdict != Verdict::unclear) continue;
    ++undecided;
    reasons.add(judgement.reason);
  }
  section.answer = fmt::format(
      "{}: {}the step of {} takes {}{}.", place,
      compared > 0 ? "by the medians the shortest, " : "", shown(strategy_text(*best), 40),
      quantity_text(Quantity::milliseconds, *median_of(*best, kDdpStep)),
      exposed ? fmt::format(", and the rank that waits longest for communication waits {}",
                            quantity_text(Quantity::milliseconds, *exposed))
              : "");
  if (compared > 0)
    section.certainty = certainty_of(compared, undecided, reasons);
  else
    section.certainty.why = "The median of the slowest rank, of one strategy.";
}

}  // namespace

ReportSection ddp_section(const ReportContext& context) {
  ReportSection section{
      .id = "ddp",
      .title = "Training on several ranks",
      .question = "Which strategy trains fastest on several ranks, and how long does it wait?"};
  std::map<std::pair<std::string, std::string>, std::vector<const Record*>> views;
  for (const Record* record : context.rows)
    if (record->study == "ddp")
      views[{shown(ddp_place(*record), 160), ddp_key(*record)}].push_back(record);
  for (const auto& [key, rows] : views) {
    const std::string& place = key.first;
    if (section.views.size() == kMostViews) break;
    Chart chart = step_chart(rows);
    if (chart.series.empty()) continue;
    if (section.views.empty()) answer_training(context, place, rows, section);
    section.views.push_back({.name = place, .charts = {std::move(chart)}});
  }
  if (!section.empty())
    for (const std::string& note : ddp_notes(context.input.records, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

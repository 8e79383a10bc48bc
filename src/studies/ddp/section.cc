// Report section: the time of a training step by strategy, with its exposed communication.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/page/winners.h"
#include "studies/ddp/rank.h"
#include "studies/ddp/tables.h"

namespace ridgeline {
namespace {

// One bar per strategy: exposed communication, and the rest of the step.
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
    const auto whole = timed_point(at, *record, kDdpStep);
    for (const auto& [series, ms] : {std::pair{0, *step - waited}, {1, waited}})
      if (ms > 0)
        chart.series[static_cast<size_t>(series)].points.push_back(
            {at, ms, quantity_text(Quantity::milliseconds, ms)});
    // The interval of the whole step is drawn at the end of its bar.
    ChartPoint& last = chart.series[waited > 0 ? 1 : 0].points.back();
    if (whole && whole->has_interval()) {
      last.low = whole->low;
      last.high = whole->high;
      last.text += fmt::format("; the step {}", whole->text);
    }
    chart.categories.push_back(shown(strategy_text(*record), 40));
    totals.push_back(last.has_interval() ? last.high : *step);
  }
  if (totals.empty())
    chart.series.clear();
  else
    chart.y = linear_axis("time of a step", Quantity::milliseconds, totals, Better::lower);
  return chart;
}

// The strategy with the smallest median and its exposed communication; the certainty is that of the
// verdicts against every other strategy.
void answer_training(const ReportContext& context, const std::vector<const Record*>& rows,
                     ReportSection& section) {
  const Record* best = nullptr;
  for (const Record* record : rows)
    if (const auto ms = median_of(*record, kDdpStep);
        ms && (!best || *ms < *median_of(*best, kDdpStep)))
      best = record;
  if (!best) return;
  const auto exposed = median_of(*best, kDdpExposed);
  Judged judged;
  for (const Record* record : rows)
    if (record != best && median_of(*record, kDdpStep))
      judged.add(context.verdicts->between(*record, *best, kDdpStep));
  const std::string ms = quantity_text(Quantity::milliseconds, *median_of(*best, kDdpStep));
  section.answer =
      fmt::format("{}{}.",
                  judged.compared > 0
                      ? fmt::format("By the medians {} has the shortest step, {}",
                                    shown(strategy_text(*best), 40), ms)
                      : fmt::format("The step of {} takes {}", shown(strategy_text(*best), 40), ms),
                  exposed ? fmt::format("; in it the rank that waits longest waits {}",
                                        quantity_text(Quantity::milliseconds, *exposed))
                          : "");
  section.certainty =
      judged.compared > 0
          ? certainty_of(judged)
          : certainty_of_times(context, "ddp", "The median of the slowest rank, of one strategy.");
}

// What distinguishes a view from others of the same place: ", by mpirun, machine 1f2e".
std::string apart_words(const Record& record, const std::vector<const Record*>& alike) {
  struct Fact {
    const char* word;
    std::string (*of)(const Record&);
  };
  constexpr Fact kFacts[] = {
      {"by ", [](const Record& each) { return text_at(each.settings, "launcher"); }},
      {"machine ", [](const Record& each) { return shown(each.machine.fingerprint, 16); }},
      {"seed ", [](const Record& each) { return text_at(each.settings, "seed"); }},
      {"parameters ", [](const Record& each) { return text_at(each.workload, "num_params"); }}};
  std::string text;
  for (const Fact& fact : kFacts) {
    const std::string own = fact.of(record);
    if (std::ranges::any_of(alike, [&](const Record* other) { return fact.of(*other) != own; }))
      text += fmt::format(", {}{}", fact.word, own.empty() ? "unknown" : own);
  }
  return text;
}

}  // namespace

ReportSection ddp_section(const ReportContext& context) {
  ReportSection section{.id = "ddp",
                        .title = "Training on several ranks",
                        .question = "Which strategy trains fastest on several ranks?"};
  std::map<std::pair<std::string, std::string>, std::vector<const Record*>> views;
  for (const Record* record : context.rows)
    if (record->study == "ddp")
      views[{shown(ddp_place(*record), 160), ddp_key(*record)}].push_back(record);
  std::map<std::string, std::vector<const Record*>> alike;  // one row of each view, by its place
  for (const auto& [key, rows] : views) alike[key.first].push_back(rows.front());
  for (const auto& [key, rows] : views) {
    const std::string place = shown(named_model(key.first, rows.front()->workload) +
                                        apart_words(*rows.front(), alike[key.first]),
                                    200);
    if (section.views.size() == kMostViews) break;
    Chart chart = step_chart(rows);
    if (chart.series.empty()) continue;
    if (section.views.empty()) answer_training(context, rows, section);
    section.views.push_back({.name = place, .charts = {std::move(chart)}});
  }
  if (!section.empty())
    for (const std::string& note : ddp_notes(context.rows, *context.verdicts))
      // With several views, notes name their model themselves.
      section.sentences.push_back(shown(
          views.size() == 1 ? named_model(note, views.begin()->second.front()->workload) : note,
          400));
  return section;
}

}  // namespace ridgeline

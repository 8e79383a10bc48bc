#include <fmt/format.h>

#include <map>

#include "report/page/axis.h"
#include "report/record_cells.h"
#include "studies/ddp/rank.h"
#include "studies/ddp/tables.h"

namespace ridgeline {
namespace {

// One bar per strategy: what computation takes, and how long it waits for communication.
Chart step_chart(const std::vector<const Record*>& rows) {
  constexpr size_t kMostBars = 24;
  Chart chart{.kind = Chart::Kind::stacked_bars,
              .id = "ddp-step",
              .title = "Time of a training step",
              .description =
                  "Median time of the slowest rank's step, one bar per strategy: waiting for "
                  "communication, and the rest."};
  chart.series = {{.name = "computation", .colour = 0},
                  {.name = "exposed communication", .colour = 1}};
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
    const std::string bucket = text_at(record->settings, "bucket_mb");
    chart.categories.push_back(shown(bucket.empty()
                                         ? record->implementation
                                         : fmt::format("{} {} MB", record->implementation, bucket),
                                     40));
    totals.push_back(*step);
  }
  if (totals.empty())
    chart.series.clear();
  else
    chart.y = linear_axis("time of a step", Quantity::milliseconds, totals);
  return chart;
}

}  // namespace

ReportSection ddp_section(const ReportContext& context) {
  ReportSection section{.id = "ddp", .title = "Training on several ranks"};
  std::map<std::string, std::vector<const Record*>> views;
  for (const Record* record : context.rows)
    if (record->study == "ddp")
      views[fmt::format("{}, {}, {}, {} ranks by {}", text_at(record->workload, "model_size"),
                        text_at(record->workload, "precision"), text_at(record->workload, "mode"),
                        text_at(record->workload, "ranks"), text_at(record->workload, "backend"))]
          .push_back(record);
  for (const auto& [name, rows] : views) {
    if (section.views.size() == kMostViews) break;
    if (Chart chart = step_chart(rows); !chart.series.empty())
      section.views.push_back({.name = shown(name, 80), .charts = {std::move(chart)}});
  }
  if (!section.empty())
    for (const std::string& note : ddp_notes(context.input.records, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

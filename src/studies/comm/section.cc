#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"
#include "report/record_cells.h"
#include "studies/comm/tables.h"

namespace ridgeline {
namespace {

// What is drawn against the bytes of a buffer.
struct CommAxis {
  const char* id;
  const char* title;
  const char* what;  // in the description
  const char* label;
  Quantity quantity;
  std::optional<double> (*of)(const Record& record);
};
constexpr CommAxis kCommAxes[] = {
    {"comm-time", "Time of collectives", "Median time of the slowest rank", "time",
     Quantity::milliseconds, [](const Record& record) { return median_of(record, kCommPhase); }},
    {"comm-bandwidth", "Bus bandwidth of collectives", "Bus bandwidth, as nccl-tests counts it",
     "bus bandwidth", Quantity::bytes_per_s,
     [](const Record& record) -> std::optional<double> {
       const auto rate = metric_of(record, kCommPhase, "busbw_gb_per_s");
       return rate ? std::optional(1e9 * *rate) : std::nullopt;
     }},
};

Chart comm_chart(const ReportContext& context, const std::vector<const Record*>& rows,
                 const CommAxis& axis) {
  Chart chart{.id = axis.id,
              .title = axis.title,
              .description = fmt::format(
                  "{} against the bytes of a rank's buffer, one line per backend; both axes "
                  "logarithmic.",
                  axis.what)};
  std::map<std::string, ChartSeries> by_name;
  std::vector<double> xs, ys;
  for (const Record* record : rows) {
    const auto bytes = positive_at(record->workload, "bytes");
    const auto value = axis.of(*record);
    if (!bytes || !value || !(*value > 0)) continue;
    ChartSeries& series = by_name[shown(record->implementation, 40)];
    series.colour = context.colour(record->implementation);
    series.points.push_back(
        {static_cast<double>(*bytes), *value, quantity_text(axis.quantity, *value)});
    xs.push_back(static_cast<double>(*bytes));
    ys.push_back(*value);
  }
  for (auto& [name, series] : by_name) {
    if (chart.series.size() == kMostImplementations) break;
    series.name = name;
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    chart.series.push_back(std::move(series));
  }
  chart.x = log_axis("bytes of a rank's buffer", Quantity::bytes, xs);
  chart.y = log_axis(axis.label, axis.quantity, ys);
  return chart;
}

}  // namespace

ReportSection comm_section(const ReportContext& context) {
  ReportSection section{.id = "comm", .title = "Collectives"};
  std::map<std::string, std::vector<const Record*>> views;
  for (const Record* record : context.rows)
    if (record->study == "comm")
      views[fmt::format("{}, {}, {} ranks", text_at(record->workload, "collective"),
                        text_at(record->workload, "dtype"), text_at(record->workload, "ranks"))]
          .push_back(record);
  for (const auto& [name, rows] : views) {
    if (section.views.size() == kMostViews) break;
    ReportView view{.name = name, .charts = {}};
    for (const CommAxis& axis : kCommAxes)
      if (Chart chart = comm_chart(context, rows, axis); !chart.series.empty())
        view.charts.push_back(std::move(chart));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  if (!section.empty())
    for (const std::string& note : comm_notes(context.input.records, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

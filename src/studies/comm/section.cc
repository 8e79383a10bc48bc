// Report section: time and bus bandwidth of collectives against the buffer size.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/record_cells.h"
#include "studies/comm/tables.h"

namespace ridgeline {
namespace {

// A quantity that is drawn against the bytes of a buffer.
struct CommAxis {
  const char* id;
  const char* title;
  const char* what;  // in the description
  const char* label;
  Quantity quantity;
  Better better;
  std::optional<double> (*of)(const Record& record);
};
constexpr CommAxis kCommAxes[] = {
    {"comm-time", "Time of collectives", "Median time of the slowest rank", "time",
     Quantity::milliseconds, Better::lower,
     [](const Record& record) { return median_of(record, kCommPhase); }},
    {"comm-bandwidth", "Bus bandwidth of collectives", "Bus bandwidth, as nccl-tests counts it",
     "bus bandwidth", Quantity::bytes_per_s, Better::higher,
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
  ImplementationLines lines;
  for (const Record* record : rows) {
    const auto bytes = positive_at(record->workload, "bytes");
    const auto value = axis.of(*record), median = median_of(*record, kCommPhase);
    if (!bytes || !value || !(*value > 0) || !median) continue;
    // A rate is inversely proportional to the time.
    const bool is_rate = axis.better == Better::higher;
    auto point = timed_point(static_cast<double>(*bytes), *record, kCommPhase, axis.quantity,
                             [&](double ms) { return is_rate ? *value * *median / ms : ms; });
    if (!point) continue;
    point->text = fmt::format("{}, {}", quantity_text(Quantity::bytes, point->x), point->text);
    lines.add(context, *record, std::move(*point));
  }
  lines.move_to(chart);
  chart.x = log_axis("bytes of a rank's buffer", Quantity::bytes, lines.xs);
  chart.y = log_axis(axis.label, axis.quantity, lines.ys, axis.better);
  return chart;
}

// The time of a setting's largest buffer, by the backend that is fastest there.
std::string collective_words(const std::string& setting, const std::vector<const Record*>& rows) {
  const Record* told = nullptr;
  for (const Record* record : rows) {
    const auto ms = median_of(*record, kCommPhase);
    const auto bytes = positive_at(record->workload, "bytes");
    if (!ms || !bytes) continue;
    const int64_t known = told ? positive_at(told->workload, "bytes").value_or(0) : 0;
    if (*bytes > known || (*bytes == known && *ms < *median_of(*told, kCommPhase))) told = record;
  }
  if (!told) return {};
  const auto rate = metric_of(*told, kCommPhase, "busbw_gb_per_s");
  return fmt::format(
      "{} of {} by {} takes {}{}.", setting,
      quantity_text(Quantity::bytes,
                    static_cast<double>(positive_at(told->workload, "bytes").value_or(0))),
      shown(told->implementation, 40),
      quantity_text(Quantity::milliseconds, *median_of(*told, kCommPhase)),
      rate ? fmt::format(", a bus bandwidth of {:.3g} GB/s", *rate) : "");
}

}  // namespace

ReportSection comm_section(const ReportContext& context) {
  ReportSection section{
      .id = "comm", .title = "Collectives", .question = "How long do collectives take?"};
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
    if (view.charts.empty()) continue;
    if (section.views.empty()) {
      section.answer = collective_words(name, rows);
      const bool is_checked = std::ranges::all_of(rows, [](const Record* record) {
        return !median_of(*record, kCommPhase) || record->verification.checked;
      });
      section.certainty = certainty_of_times(
          context, "comm",
          is_checked ? "The median of the slowest rank; results match exact sums."
                     : "The median of the slowest rank; not all results were checked.");
    }
    section.views.push_back(std::move(view));
  }
  if (!section.empty())
    for (const std::string& note : comm_notes(context.rows, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

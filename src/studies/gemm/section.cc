#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/axis.h"
#include "studies/gemm/tables.h"

namespace ridgeline {
namespace {

// The edge of the cube with as many multiply-accumulates: n of a square product.
std::optional<double> gemm_edge(const Record& record) {
  double product = 1;
  for (const char* key : {"m", "n", "k"}) {
    const auto size = positive_at(record.workload, key);
    if (!size) return std::nullopt;
    product *= static_cast<double>(*size);
  }
  return std::round(std::cbrt(product));
}

Chart gemm_chart(const ReportContext& context, const std::vector<const Record*>& rows) {
  Chart chart{.id = "gemm-speed",
              .title = "Speed of matrix products",
              .description =
                  "FLOP/s against the size, the edge of a cube with as many "
                  "multiply-accumulates, one line per implementation; both axes "
                  "logarithmic."};
  std::map<std::string, ChartSeries> by_name;
  std::vector<double> xs, ys;
  for (const Record* record : rows) {
    const auto edge = gemm_edge(*record);
    const auto ms = median_of(*record, "forward");
    if (!edge || !ms || *ms <= 0 || !record->cost || record->cost->forward.flops <= 0) continue;
    const double rate = static_cast<double>(record->cost->forward.flops) / *ms * 1e3;
    ChartSeries& series = by_name[shown(record->implementation, 40)];
    series.colour = context.colour(record->implementation);
    series.points.push_back({*edge, rate, quantity_text(Quantity::flops_per_s, rate)});
    xs.push_back(*edge);
    ys.push_back(rate);
  }
  for (auto& [name, series] : by_name) {
    if (chart.series.size() == kMostImplementations) break;
    series.name = name;
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    chart.series.push_back(std::move(series));
  }
  chart.x = log_axis("size", Quantity::length, xs);
  chart.y = log_axis("speed", Quantity::flops_per_s, ys);
  return chart;
}

}  // namespace

ReportSection gemm_section(const ReportContext& context) {
  ReportSection section{.id = "gemm", .title = "Matrix products"};
  std::map<std::string, std::vector<const Record*>> views;
  for (const Record* record : context.rows)
    if (record->study == "gemm")
      views[fmt::format("{}, {}, {}, {}", text_at(record->workload, "op"),
                        text_at(record->workload, "dtype"), text_at(record->settings, "mode"),
                        shown(record->machine.gpu ? record->machine.gpu->model : "CPU", 40))]
          .push_back(record);
  for (const auto& [name, rows] : views) {
    if (section.views.size() == kMostViews) break;
    if (Chart chart = gemm_chart(context, rows); !chart.series.empty())
      section.views.push_back({.name = name, .charts = {std::move(chart)}});
  }
  if (!section.empty())
    for (const std::string& note : gemm_notes(context.input.records, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

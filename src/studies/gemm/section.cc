#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/axis.h"
#include "studies/gemm/tables.h"

namespace ridgeline {
namespace {

// The edge of the cube with as many multiply-accumulates, of a gemv that of the square: n of a
// square product.
std::optional<double> gemm_edge(const Record& record) {
  double product = 1;
  for (const char* key : {"m", "n", "k"}) {
    const auto size = positive_at(record.workload, key);
    if (!size) return std::nullopt;
    product *= static_cast<double>(*size);
  }
  const bool is_vector = text_at(record.workload, "op") == "gemv";
  return std::round(is_vector ? std::sqrt(product) : std::cbrt(product));
}

// What is drawn against the size.
struct GemmAxis {
  const char* id;
  const char* title;
  const char* what;  // in the description
  const char* label;
  Quantity quantity;
  double (*of)(double ms, double flops);
};
constexpr GemmAxis kGemmAxes[] = {
    {"gemm-latency", "Latency of matrix products", "Median time", "latency", Quantity::milliseconds,
     [](double ms, double) { return ms; }},
    {"gemm-speed", "Speed of matrix products", "FLOP/s", "speed", Quantity::flops_per_s,
     [](double ms, double flops) { return flops / ms * 1e3; }},
};

Chart gemm_chart(const ReportContext& context, const std::vector<const Record*>& rows,
                 const GemmAxis& axis) {
  Chart chart{.id = axis.id,
              .title = axis.title,
              .description = fmt::format(
                  "{} against the size, the edge of a cube (of gemv, a square) with as many "
                  "multiply-accumulates, one line per implementation; both axes logarithmic.",
                  axis.what)};
  std::map<std::string, ChartSeries> by_name;
  std::vector<double> xs, ys;
  for (const Record* record : rows) {
    const auto edge = gemm_edge(*record);
    const auto ms = median_of(*record, "forward");
    if (!edge || !ms || *ms <= 0 || !record->cost || record->cost->forward.flops <= 0) continue;
    const double value = axis.of(*ms, static_cast<double>(record->cost->forward.flops));
    ChartSeries& series = by_name[shown(record->implementation, 40)];
    series.colour = context.colour(record->implementation);
    series.points.push_back({*edge, value, quantity_text(axis.quantity, value)});
    xs.push_back(*edge);
    ys.push_back(value);
  }
  for (auto& [name, series] : by_name) {
    if (chart.series.size() == kMostImplementations) break;
    series.name = name;
    std::stable_sort(series.points.begin(), series.points.end(),
                     [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
    chart.series.push_back(std::move(series));
  }
  chart.x = log_axis("size", Quantity::length, xs);
  chart.y = log_axis(axis.label, axis.quantity, ys);
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
    ReportView view{.name = name, .charts = {}};
    for (const GemmAxis& axis : kGemmAxes)
      if (Chart chart = gemm_chart(context, rows, axis); !chart.series.empty())
        view.charts.push_back(std::move(chart));
    if (!view.charts.empty()) section.views.push_back(std::move(view));
  }
  if (!section.empty())
    for (const std::string& note : gemm_notes(context.input.records, *context.verdicts))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

// Sections of the GEMM lab and of the out-of-memory frontier.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/page/axis.h"
#include "report/page/sections.h"
#include "studies/frontier/tables.h"
#include "studies/gemm/tables.h"

namespace ridgeline {
namespace {

// A number at the top of the metrics, such as {"seq_len": 4096}.
std::optional<double> metric_at(const Record& record, const char* name) {
  if (!record.metrics || !record.metrics->is_object()) return std::nullopt;
  const auto value = positive_at(*record.metrics, name);
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

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

ReportSection frontier_section(const ReportContext& context) {
  ReportSection section{.id = "frontier", .title = "How long a sequence fits"};
  std::map<std::string, Chart> charts;
  std::map<std::string, std::vector<double>> lengths;
  for (const Record* record : context.rows) {
    const auto fits = metric_at(*record, "seq_len");
    if (record->study != "frontier" || !fits) continue;
    const std::string view =
        fmt::format("d {}, heads {}, {}{}", text_at(record->workload, "d_model"),
                    text_at(record->workload, "heads"), text_at(record->workload, "dtype"),
                    text_at(record->workload, "causal") == "True" ? ", causal" : "");
    Chart& chart = charts[view];
    if (chart.series.empty())
      chart = {.kind = Chart::Kind::bars,
               .id = "frontier",
               .title = "The longest sequence that fits",
               .description =
                   "The longest sequence that ran and the shortest that did not fit, as "
                   "probed, by implementation and batch; the axis is logarithmic.",
               .series = {{.name = "fits up to", .colour = 2},
                          {.name = "does not fit at", .colour = 5}}};
    constexpr size_t kMostBars = 40;
    if (chart.categories.size() == kMostBars) continue;
    const auto category = static_cast<double>(chart.categories.size());
    chart.categories.push_back(fmt::format("{}, batch {}", shown(record->implementation, 40),
                                           text_at(record->workload, "batch_size")));
    const auto add = [&](ChartSeries& series, double length) {
      series.points.push_back({category, length, fmt::format("S {:.0f}", length)});
      lengths[view].push_back(length);
    };
    add(chart.series[0], *fits);
    if (const auto fails = metric_at(*record, "first_oom_seq_len")) add(chart.series[1], *fails);
  }
  for (auto& [view, chart] : charts) {
    if (section.views.size() == kMostViews) break;
    chart.y = log_axis("sequence length", Quantity::length, lengths[view]);
    chart.y.min = *std::min_element(lengths[view].begin(), lengths[view].end()) / 2;
    section.views.push_back({.name = view, .charts = {std::move(chart)}});
  }
  if (!section.empty())
    for (const std::string& note : frontier_notes(context.input.records))
      section.sentences.push_back(shown(note, 400));
  return section;
}

}  // namespace ridgeline

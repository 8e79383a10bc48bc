// Report section: parts of a decoder layer below the roof, prefill against decode.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "measure/record_values.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/quiet.h"
#include "report/record_cells.h"
#include "studies/decode/tables.h"

namespace ridgeline {
namespace {

struct LayerDot {
  const Record* record = nullptr;
  double intensity = 0, flops_per_s = 0;
  double low = ChartPoint::kNone, high = ChartPoint::kNone;  // confidence interval, FLOP/s
  std::optional<double> ridge = {}, attainable = {};         // FLOP/byte; FLOP/s
};

// Prefill with and without a cache differs only in what it stores: one of them is drawn.
bool is_drawn(const Record& record) {
  return text_at(record.workload, "phase") == "decode" || text_at(record.workload, "cache") == "on";
}

std::optional<LayerDot> dot_of(const Record& record) {
  const auto ms = median_of(record, "forward");
  const auto intensity = metric_of(record, "forward", "intensity");
  if (!record.cost || !ms || !(*ms > 0) || !intensity || !(*intensity > 0)) return std::nullopt;
  const double flops = 2 * static_cast<double>(record.cost->forward.macs);
  const auto point = timed_point(*intensity, record, "forward", Quantity::flops_per_s,
                                 [&](double of_ms) { return flops / of_ms * 1e3; });
  if (!point) return std::nullopt;
  LayerDot dot{.record = &record,
               .intensity = *intensity,
               .flops_per_s = point->y,
               .low = point->low,
               .high = point->high};
  const auto least = metric_of(record, "forward", "predicted_ms");
  if (least && *least > 0) dot.attainable = flops / *least * 1e3;
  dot.ridge = metric_of(record, "forward", "ridge");
  return dot;
}

std::string series_name(const Record& record) {
  const Json& work = record.workload;
  return fmt::format("{}, {}{}", text_at(work, "part"), text_at(work, "phase"),
                     text_at(work, "cache") == "off" ? " without a cache" : "");
}

std::string dot_text(const LayerDot& dot) {
  const Json& work = dot.record->workload;
  std::string text =
      fmt::format("{}, prompt {}, batch {}: {} at {:.3g} FLOP/byte", series_name(*dot.record),
                  text_at(work, "prompt_length"), text_at(work, "batch_size"),
                  quantity_text(Quantity::flops_per_s, dot.flops_per_s), dot.intensity);
  if (dot.attainable)
    text += fmt::format(", {:.0f} % of the roof", 100 * dot.flops_per_s / *dot.attainable);
  return text;
}

// The roof through the ridge and one dot's attainable rate, which lies on it.
std::optional<ChartSeries> roof_of(const std::vector<LayerDot>& dots, double low, double high) {
  const auto known = std::ranges::find_if(
      dots, [](const LayerDot& dot) { return dot.ridge && dot.attainable && *dot.ridge > 0; });
  if (known == dots.end()) return std::nullopt;
  const double ridge = *known->ridge;
  const double bandwidth = *known->attainable / std::min(known->intensity, ridge);
  ChartSeries series{.name = "roofline", .mark = ChartSeries::Mark::line, .colour = -1};
  series.points.push_back({std::min(low, ridge) / 2, bandwidth * std::min(low, ridge) / 2,
                           fmt::format("memory: {:.4g} GB/s", bandwidth / 1e9)});
  series.points.push_back(
      {ridge, bandwidth * ridge, fmt::format("the ridge: {:.3g} FLOP/byte", ridge)});
  series.points.push_back({std::max(high, ridge) * 2, bandwidth * ridge, "compute"});
  return series;
}

Chart layer_chart(const std::vector<LayerDot>& dots) {
  Chart chart{.id = "decode-roofline",
              .title = "Parts of a decoder layer below the roof",
              .description =
                  "FLOP/s of attention, MLP and the whole layer against their arithmetic "
                  "intensity: rings are prefill, dots decode with a cache, crosses decode without; "
                  "both axes logarithmic."};
  const std::vector<std::string> parts = {"attention", "mlp", "layer"};
  std::map<std::string, ChartSeries> by_name;
  std::vector<std::string> names;
  std::vector<double> xs, ys;
  for (const LayerDot& dot : dots) {
    const Json& work = dot.record->workload;
    const std::string name = series_name(*dot.record);
    if (!by_name.contains(name)) names.push_back(name);
    ChartSeries& series = by_name[name];
    const auto part = std::ranges::find(parts, text_at(work, "part"));
    series.name = name;
    series.colour = static_cast<int>(part - parts.begin());
    series.mark = text_at(work, "phase") == "prefill" ? ChartSeries::Mark::rings
                  : text_at(work, "cache") == "on"    ? ChartSeries::Mark::points
                                                      : ChartSeries::Mark::crosses;
    series.palette = ChartSeries::Palette::tensors;
    series.points.push_back({dot.intensity, dot.flops_per_s, dot_text(dot), dot.low, dot.high});
    xs.push_back(dot.intensity);
    ys.push_back(dot.flops_per_s);
  }
  for (const std::string& name : names)
    if (chart.series.size() < kMostImplementations)
      chart.series.push_back(std::move(by_name[name]));
  const auto [low, high] = std::ranges::minmax_element(xs);
  if (auto roof = roof_of(dots, *low, *high)) {
    for (const ChartPoint& point : roof->points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
    chart.series.push_back(std::move(*roof));
  }
  chart.x = log_axis("arithmetic intensity, FLOP per byte", Quantity::intensity, xs);
  chart.y = log_axis("speed", Quantity::flops_per_s, ys, Better::higher);
  return chart;
}

// Says that the ridge is that of loads, which decoding mostly does, if it differs from the
// roofline's.
std::string ridge_words(const ReportContext& context, const std::vector<LayerDot>& dots) {
  const auto known =
      std::ranges::find_if(dots, [](const LayerDot& dot) { return dot.ridge.has_value(); });
  if (known == dots.end()) return {};
  const Roofline* measured = roofline_of(*known->record, context.rooflines);
  const auto of_both =
      measured ? measured->ridge(text_at(known->record->workload, "dtype")) : std::nullopt;
  constexpr double kApart = 1.02;
  if (!of_both || std::max(*of_both / *known->ridge, *known->ridge / *of_both) < kApart) return {};
  return " The ridge is that of loads, as under Roofline.";
}

}  // namespace

ReportSection layer_section(const ReportContext& context) {
  ReportSection section{.id = "decode", .title = "A decoder layer"};
  std::vector<const Record*> rows;
  std::map<std::string, std::vector<LayerDot>> views;
  for (const Record* record : context.rows) {
    if (record->study != "decode" || !record->workload.is_object() || !record->cost) continue;
    rows.push_back(record);
    const auto dot = is_drawn(*record) ? dot_of(*record) : std::nullopt;
    if (!dot) continue;
    const Json& work = record->workload;
    views[fmt::format(
              "Gemma 3 {} {}, {} layer, random weights, {}, {}", text_at(work, "model_config"),
              text_at(work, "dtype"), text_at(work, "layer_kind"),
              shown(record->implementation, 40),
              shown(record->device == "cuda" && record->machine.gpu ? record->machine.gpu->model
                                                                    : "CPU",
                    60))]
        .push_back(*dot);
  }
  if (rows.empty()) return section;
  section.question = "What bounds a decoder layer?";
  if (std::string answer = layer_bounds(rows); !answer.empty()) {
    answer[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(answer[0])));
    section.answer = shown(answer + ".", 1000);
  }
  section.certainty = certainty_of_times(
      context, "decode",
      "Medians." + (views.empty() ? std::string() : ridge_words(context, views.begin()->second)));
  for (const auto& [name, dots] : views) {
    if (section.views.size() == kMostViews) break;
    section.views.push_back({.name = name, .charts = {layer_chart(dots)}});
  }
  for (const std::string& note : layer_notes(rows)) section.sentences.push_back(shown(note, 1000));
  section.tables.push_back(as_report_table(layer_summary(rows)));
  return section;
}

}  // namespace ridgeline

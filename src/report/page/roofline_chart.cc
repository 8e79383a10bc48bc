#include "report/page/roofline_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cost/device_specs.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

constexpr size_t kMostPoints = 400;  // of one series

// The tooltip: work, size, predicted and measured time, rate, and what bounds the dot.
std::string dot_text(const RooflineDot& dot, const ChartPoint& point) {
  const double ms = median_of(*dot.record, dot.series).value_or(0);
  std::string text = fmt::format("{} {}, {}: ", work_of(*dot.record), phase_words(dot.series),
                                 size_words(*dot.record));
  if (dot.roof)
    text += fmt::format("predicted at least {}, ",
                        quantity_text(Quantity::milliseconds, ms * dot.flops_per_s / *dot.roof));
  text += fmt::format("measured {}, {} at {} FLOP/byte", quantity_text(Quantity::milliseconds, ms),
                      quantity_text(Quantity::flops_per_s, dot.flops_per_s),
                      figures_text(dot.intensity));
  if (point.has_interval())
    text += fmt::format(" ({} to {})", quantity_text(Quantity::flops_per_s, point.low),
                        quantity_text(Quantity::flops_per_s, point.high));
  if (const std::string bound = bound_words(dot); !bound.empty()) text += ", bound by " + bound;
  // With several paths the roof depends on their shares, so that each dot has its own.
  if (dot.roof && dot.several_paths)
    text +=
        fmt::format(", a roof of its own at {}", quantity_text(Quantity::flops_per_s, *dot.roof));
  return text;
}

// The values that the axes must include.
struct RooflineRange {
  std::vector<double> xs = {}, ys = {};

  void add(const ChartSeries& series) {
    for (const ChartPoint& point : series.points) {
      xs.push_back(point.x);
      ys.push_back(point.y);
    }
  }
  double low() const { return *std::ranges::min_element(xs) / 2; }
  double high() const { return *std::ranges::max_element(xs) * 2; }
};

// Adds a series per implementation and kind of work; forward is filled, other phases are rings.
void add_dots(const ReportContext& context, const PathDots& path, Chart& chart,
              RooflineRange& range) {
  using Key = std::tuple<std::string, std::string, bool>;
  std::map<Key, ChartSeries> by_name;  // forward before other phases
  for (const RooflineDot* dot : path.dots) {
    const bool is_forward = dot->series == "forward";
    const std::string name = shown(dot->record->implementation, 40), work = work_of(*dot->record);
    ChartSeries& series = by_name[{name, work, !is_forward}];
    series.name = name;
    series.implementation = shown(dot->record->implementation, 60);
    series.group = path.path;
    series.work = work;
    series.mark = is_forward ? ChartSeries::Mark::points : ChartSeries::Mark::rings;
    series.colour = context.colour(dot->record->implementation);
    const double ms = median_of(*dot->record, dot->series).value_or(1);
    auto point = timed_point(dot->intensity, *dot->record, dot->series, Quantity::flops_per_s,
                             [&](double of_ms) { return dot->flops_per_s * ms / of_ms; });
    if (!point || series.points.size() == kMostPoints) continue;
    point->text = dot_text(*dot, *point);
    series.points.push_back(std::move(*point));
  }
  for (auto& [name, series] : by_name) {
    if (series.points.empty()) continue;
    range.add(series);
    chart.series.push_back(std::move(series));
  }
}

// Adds the kernels of profiled steps, with their mean rates.
void add_kernels(const ReportContext& context, const RooflineMachine& machine, Chart& chart,
                 RooflineRange& range) {
  constexpr size_t kMostKernels = 40, kMostProfiles = 8;
  for (size_t i = 0; i < std::min(machine.profiles.size(), kMostProfiles); ++i) {
    const Record& record = *machine.profiles[i];
    const Json* folds = record.metrics->find_key("folds");
    const Json* kernels = folds && folds->is_object() ? folds->find_key("kernel") : nullptr;
    if (!kernels || !kernels->is_array()) continue;
    ChartSeries series{.name = fmt::format("kernels of {}", shown(record.implementation, 40)),
                       .mark = ChartSeries::Mark::crosses,
                       .colour = context.colour(record.implementation),
                       .implementation = shown(record.implementation, 60)};
    for (const Json& kernel : *kernels) {
      if (!kernel.is_object() || series.points.size() == kMostKernels) continue;
      const double rate = number_in(kernel, "flops_per_s").value_or(0),
                   bytes = number_in(kernel, "bytes_per_s").value_or(0),
                   mean_us = number_in(kernel, "mean_us").value_or(0);
      if (!(rate > 0) || !(bytes > 0) || !std::isfinite(rate / bytes)) continue;
      std::string text = fmt::format("{} in {}: ", shown(text_of(kernel, "key"), 60),
                                     shown(text_of(kernel, "phase"), 20));
      if (const auto predicted = number_in(kernel, "predicted_us"))
        text += fmt::format("predicted at least {:.4g} us, ", *predicted);
      text += fmt::format("measured {:.4g} us, {} at {:.3g} FLOP/byte", mean_us,
                          quantity_text(Quantity::flops_per_s, rate), rate / bytes);
      if (const auto share = number_in(kernel, "roof_share"))
        text += fmt::format(", {:.0f} % of the roof", 100 * *share);
      series.points.push_back({rate / bytes, rate, std::move(text)});
    }
    if (series.points.empty()) continue;
    range.add(series);
    chart.series.push_back(std::move(series));
  }
}

ChartSeries roof_series(const std::string& name, double peak, std::optional<double> bandwidth,
                        double low, double high) {
  ChartSeries series{.name = name, .mark = ChartSeries::Mark::line, .colour = -1};
  if (bandwidth) {
    const double ridge = peak / *bandwidth;
    low = std::min(low, ridge / 4);
    high = std::max(high, ridge * 4);
    series.points.push_back({low, low * *bandwidth, "memory bandwidth"});
    series.points.push_back({ridge, peak, fmt::format("the ridge point: {:.3g} FLOP/byte", ridge)});
  } else {
    series.points.push_back({low, peak, "compute peak"});
  }
  series.points.push_back({high, peak, "compute peak"});
  return series;
}

bool has_dots_of_loads(const RooflineMachine& machine) {
  return std::ranges::any_of(machine.paths, [](const PathDots& path) {
    return std::ranges::any_of(path.dots,
                               [](const RooflineDot* dot) { return dot->slope == kOfLoads; });
  });
}

// Adds the roof of every arithmetic, and the slopes of the caches up to the highest roof: a working
// set in a cache may lie above the slope of memory.
void add_ceilings(const RooflineMachine& machine, Chart& chart, RooflineRange& range) {
  double low = range.low(), high = range.high(), highest = 0;
  const Ceilings* widest = nullptr;
  std::vector<ChartSeries> lines;
  for (const PathDots& path : machine.paths) {
    const Ceilings& ceilings = path.ceilings;
    if (!ceilings.flops_per_s) continue;
    lines.push_back(roof_series("roof of " + path.path, *ceilings.flops_per_s, ceilings.bytes_per_s,
                                low, high));
    lines.back().group = path.path;
    lines.back().points.back().label = fmt::format(
        "{}: {}", path.path, quantity_text(Quantity::flops_per_s, *ceilings.flops_per_s));
    // All arithmetic shares the slope, so that it is labelled once.
    if (ceilings.bytes_per_s && !widest)
      lines.back().points.front().label =
          fmt::format("memory: {:.4g} GB/s", *ceilings.bytes_per_s / 1e9);
    highest = std::max(highest, *ceilings.flops_per_s);
    if (!widest || ceilings.caches.size() > widest->caches.size()) widest = &ceilings;
  }
  if (lines.empty()) return;
  low = std::min(low, lines.front().points.front().x);
  int colour = -1;
  if (widest && widest->loads && has_dots_of_loads(machine)) {
    const double rate = widest->loads->rate;
    lines.push_back(
        {.name = "loads alone",
         .mark = ChartSeries::Mark::line,
         .colour = colour,
         .points = {{low, low * rate, "loads alone"}, {highest / rate, highest, "loads alone"}}});
    lines.back().points.front().label = fmt::format("loads alone: {:.4g} GB/s", rate / 1e9);
  }
  if (widest)
    for (auto cache = widest->caches.rbegin(); cache != widest->caches.rend(); ++cache) {
      const double ridge = highest / cache->rate;
      if (ridge <= low) continue;
      const std::string name = shown(cache->level, 20);
      lines.push_back({.name = name,
                       .mark = ChartSeries::Mark::line,
                       .colour = --colour,  // each paler than the one before
                       .points = {{low, low * cache->rate, name}, {ridge, highest, name}}});
      lines.back().points.front().label = fmt::format("{}: {:.4g} GB/s", name, cache->rate / 1e9);
    }
  for (const ChartSeries& line : lines) range.add(line);
  chart.series.insert(chart.series.begin(), std::make_move_iterator(lines.begin()),
                      std::make_move_iterator(lines.end()));
}

// Adds what bounds work left and right of the ridge points; between them the arithmetic decides.
void add_regions(const RooflineMachine& machine, Chart& chart) {
  std::vector<double> ridges;
  for (const PathDots& path : machine.paths)
    if (path.ceilings.flops_per_s && path.ceilings.bytes_per_s)
      ridges.push_back(*path.ceilings.flops_per_s / *path.ceilings.bytes_per_s);
  if (ridges.empty()) return;
  const auto [first, last] = std::ranges::minmax_element(ridges);
  chart.regions.push_back({chart.x.min, *first, "memory bounds"});
  if (*last > *first * 1.01) chart.regions.push_back({*first, *last, "depends on the arithmetic"});
  chart.regions.push_back({*last, chart.x.max, "arithmetic bounds"});
}

// Selects the dots to label: for each arithmetic the one closest to its roof, the one that loses
// most time below its roof, and attention at a long sequence.
std::vector<const RooflineDot*> dots_to_name(const ReportContext& context,
                                             const RooflineMachine& machine) {
  constexpr size_t kMostNames = 10;
  const RooflineDot* worst = nullptr;
  double most_lost = 0;
  std::vector<const RooflineDot*> named;
  for (const PathDots& path : machine.paths) {
    for (const RooflineDot* dot : path.dots) {
      if (!dot->roof) continue;
      const double lost = median_of(*dot->record, dot->series).value_or(0) * (1 - dot->share());
      if (lost > most_lost) worst = dot, most_lost = lost;
    }
    if (const RooflineDot* best = closest_to_roof(path.dots)) named.push_back(best);
  }
  if (worst) named.push_back(worst);
  for (const RooflineDot* dot : long_attention(context, machine)) named.push_back(dot);
  std::vector<const RooflineDot*> out;
  for (const RooflineDot* dot : named)
    if (out.size() < kMostNames && std::ranges::find(out, dot) == out.end()) out.push_back(dot);
  return out;
}

void name_dots(const ReportContext& context, const RooflineMachine& machine, Chart& chart) {
  for (const RooflineDot* dot : dots_to_name(context, machine))
    for (ChartSeries& series : chart.series)
      for (ChartPoint& point : series.points)
        if (point.label.empty() && point.x == dot->intensity && point.y == dot->flops_per_s &&
            series.name == shown(dot->record->implementation, 40))
          point.label = fmt::format("{} {} {}{}", series.name, phase_words(dot->series),
                                    shown(short_size(*dot->record), 48),
                                    dot->roof ? fmt::format(", {:.0f} %", 100 * dot->share()) : "");
}

// The chart's numbers are its ceilings, as the table of all phases has the dots.
Table ceilings_table(const RooflineMachine& machine) {
  Table table{.title = "Ceilings of " + machine.name,
              .columns = {"arithmetic", "FLOP/s", "memory GB/s", "ridge FLOP/byte", "from"}};
  for (const PathDots& path : machine.paths) {
    const Ceilings& of = path.ceilings;
    if (of.flops_per_s)
      table.rows.push_back(
          {path.path, quantity_text(Quantity::flops_per_s, *of.flops_per_s),
           of.bytes_per_s ? fmt::format("{:.4g}", *of.bytes_per_s / 1e9) : "",
           of.bytes_per_s ? fmt::format("{:.3g}", *of.flops_per_s / *of.bytes_per_s) : "",
           of.source});
  }
  return table;
}

}  // namespace

Chart roofline_chart(const ReportContext& context, const RooflineMachine& machine, RooflineOf of) {
  const bool is_kernels = of == RooflineOf::kernels;
  Chart chart{.id = is_kernels ? "roofline-kernels" : "roofline",
              .title = fmt::format("Roofline: {}{}", machine.name,
                                   is_kernels ? ", kernels of a profiled step" : ""),
              .description =
                  is_kernels
                      ? "Arithmetic intensity of every kernel of a profiled step against the mean "
                        "speed it reached, below the ceilings of the machine; both axes "
                        "logarithmic."
                      : "Arithmetic intensity of every measured pass against the speed it reached, "
                        "below the ceilings of the machine; both axes logarithmic. Filled marks "
                        "are forward passes, rings other passes.",
              .is_tall = true};
  RooflineRange range;
  if (is_kernels)
    add_kernels(context, machine, chart, range);
  else
    for (const PathDots& path : machine.paths) add_dots(context, path, chart, range);
  if (range.xs.empty()) return chart;
  add_ceilings(machine, chart, range);
  chart.x = log_axis("arithmetic intensity, FLOP per byte", Quantity::intensity, range.xs);
  chart.y = log_axis("speed", Quantity::flops_per_s, range.ys, Better::higher);
  add_regions(machine, chart);
  if (is_kernels) return chart;
  name_dots(context, machine, chart);
  chart.key = "filled: forward; hollow: others";
  chart.numbers = ceilings_table(machine);
  return chart;
}

Chart beside_others(const RooflineMachine& machine, Chart chart) {
  constexpr std::string_view kShown[] = {"A100 SXM 80 GB", "H100 SXM"};
  const std::string dtype =
      std::ranges::any_of(machine.paths,
                          [](const PathDots& path) { return path.dots.front()->path == "bf16"; })
          ? "bf16"
          : "fp32";
  chart.id = "roofline-others";
  chart.title = fmt::format("Roofline: {}, beside the {} roofs of other machines (data sheets)",
                            machine.name, dtype);
  RooflineRange range;
  // Tooltips only name the dot here: the first view has its figures.
  for (ChartSeries& series : chart.series) {
    range.add(series);
    for (ChartPoint& point : series.points) {
      point.text = point.text.substr(0, point.text.find(':'));
      point.low = point.high = ChartPoint::kNone;
    }
  }
  int colour = 0;
  for (const GpuSpec& spec : gpu_specs()) {
    const double peak = dense_tflops(spec, dtype) * 1e12;
    if (!(peak > 0)) continue;
    ChartSeries series =
        roof_series(fmt::format("{}, {:.4g} TFLOP/s, {:.4g} GB/s", spec.name, peak / 1e12,
                                spec.gigabytes_per_s),
                    peak, spec.gigabytes_per_s * 1e9, range.low() * 2, range.high() / 2);
    series.palette = ChartSeries::Palette::tensors;
    series.colour = colour++;
    series.hidden = std::ranges::find(kShown, spec.name) == std::end(kShown);
    chart.series.push_back(std::move(series));
  }
  for (const ChartSeries& series : chart.series) range.add(series);
  chart.regions.clear();
  chart.x = log_axis(chart.x.label, Quantity::intensity, range.xs);
  chart.y = log_axis(chart.y.label, Quantity::flops_per_s, range.ys, Better::higher);
  return chart;
}

std::string machine_name(const Record& record) {
  return record.machine.gpu                 ? shown(record.machine.gpu->model, 40)
         : record.machine.cpu_model.empty() ? shown(record.device, 20)
                                            : shown(record.machine.cpu_model, 60);
}

std::vector<const RooflineDot*> long_attention(const ReportContext& context,
                                               const RooflineMachine& machine) {
  // Tries groups in the order of the section on attention, so that both show the same rows.
  for (const LengthGroup& group : length_study(context, "attention").groups) {
    std::map<int64_t, std::vector<const RooflineDot*>> by_length;
    for (const LengthRow& row : group.rows) {
      const RooflineDot* dot = context.dot(*row.record, "forward");
      if (dot && dot->bound && machine_name(*row.record) == machine.name)
        by_length[row.seq_len].push_back(dot);
    }
    std::vector<const RooflineDot*> longest;
    for (auto& [length, dots] : by_length)
      if (dots.size() >= longest.size()) longest = std::move(dots);
    if (!longest.empty()) return longest;
  }
  return {};
}

}  // namespace ridgeline

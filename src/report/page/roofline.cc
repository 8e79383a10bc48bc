// The roofline: every measured pass and every kernel of a profiled step by its arithmetic
// intensity, below the ceilings of its machine, all arithmetic in one chart.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost/device_specs.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "report/page/points.h"
#include "report/page/roofline_dots.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

constexpr size_t kMostPoints = 400;  // of one series: more are a cloud
constexpr size_t kMostPaths = 8;
constexpr const char* kKernelsGroup = "kernels of a step";

// What was measured in one arithmetic, and its ceilings.
struct PathDots {
  std::string path;
  std::vector<RooflineDot> dots = {};
  Ceilings ceilings = {};
};

// One machine: a chart.
struct RooflineMachine {
  std::string name;
  std::vector<PathDots> paths = {};          // those with the most dots first
  std::vector<const Record*> profiles = {};  // whose kernels are dots, too
};

std::string machine_of(const Record& record) {
  return record.machine.gpu                 ? shown(record.machine.gpu->model, 40)
         : record.machine.cpu_model.empty() ? shown(record.device, 20)
                                            : shown(record.machine.cpu_model, 60);
}

std::vector<RooflineMachine> machines_of(const ReportContext& context) {
  std::vector<RooflineMachine> machines;
  const auto machine = [&](const Record& record) -> RooflineMachine& {
    const std::string name = machine_of(record);
    const auto known = std::ranges::find(machines, name, &RooflineMachine::name);
    return known != machines.end() ? *known : machines.emplace_back(RooflineMachine{.name = name});
  };
  for (RooflineDot& dot : roofline_dots(context)) {
    std::vector<PathDots>& paths = machine(*dot.record).paths;
    const std::string path = dot.path.empty() ? "dtype unknown" : dot.path;
    auto known = std::ranges::find(paths, path, &PathDots::path);
    if (known == paths.end()) {
      if (paths.size() == kMostPaths) continue;  // records come from files
      known = paths.insert(paths.end(), PathDots{.path = path});
      known->ceilings = ceilings_of(context, *dot.record, arithmetic_of(*dot.record, dot.series));
    }
    known->dots.push_back(std::move(dot));
  }
  for (RooflineMachine& each : machines)
    std::ranges::stable_sort(each.paths, std::ranges::greater(),
                             [](const PathDots& path) { return path.dots.size(); });
  for (const Record* record : context.rows)
    if (record->study == "profile" && record->metrics && record->metrics->is_object() &&
        std::ranges::count(machines, machine_of(*record), &RooflineMachine::name) > 0)
      machine(*record).profiles.push_back(record);
  return machines;
}

std::string workload_words(const Record& record) {
  std::string text;
  for (const char* key : {"model_size", "context_length", "batch_size", "heads", "seq_len",
                          "d_model", "head_dim", "m", "n", "k"})
    if (const std::string value = text_at(record.workload, key); !value.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  return text;
}

// Name, size, predicted and measured time, rate, and share of the roof.
std::string dot_text(const RooflineDot& dot, const ChartPoint& point) {
  const double ms = median_of(*dot.record, dot.series).value_or(0);
  std::string text = fmt::format("{}, {}: ", dot.series, workload_words(*dot.record));
  if (dot.roof)
    text += fmt::format("predicted at least {}, ",
                        quantity_text(Quantity::milliseconds, ms * dot.flops_per_s / *dot.roof));
  text +=
      fmt::format("measured {}, {} at {:.3g} FLOP/byte", quantity_text(Quantity::milliseconds, ms),
                  quantity_text(Quantity::flops_per_s, dot.flops_per_s), dot.intensity);
  if (point.has_interval())
    text += fmt::format(" ({} to {})", quantity_text(Quantity::flops_per_s, point.low),
                        quantity_text(Quantity::flops_per_s, point.high));
  if (dot.roof) text += fmt::format(", {:.0f} % of the roof", 100 * dot.flops_per_s / *dot.roof);
  // Parts in several ways differ in their shares, so that each has a roof of its own.
  if (dot.roof && dot.several_paths)
    text += fmt::format(" of its own, {}", quantity_text(Quantity::flops_per_s, *dot.roof));
  return text;
}

// What an axis has to hold.
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

// Of one implementation in one arithmetic; forward is filled, other passes are rings.
void add_dots(const ReportContext& context, const PathDots& path, Chart& chart,
              RooflineRange& range) {
  std::map<std::pair<std::string, bool>, ChartSeries> by_name;  // forward before other passes
  for (const RooflineDot& dot : path.dots) {
    const bool is_forward = dot.series == "forward";
    const std::string name = shown(dot.record->implementation, 40);
    ChartSeries& series = by_name[{name, !is_forward}];
    series.name = name;
    series.implementation = shown(dot.record->implementation, 60);
    series.group = path.path;
    series.mark = is_forward ? ChartSeries::Mark::points : ChartSeries::Mark::rings;
    series.colour = context.colour(dot.record->implementation);
    const double ms = median_of(*dot.record, dot.series).value_or(1);
    auto point = timed_point(dot.intensity, *dot.record, dot.series, Quantity::flops_per_s,
                             [&](double of_ms) { return dot.flops_per_s * ms / of_ms; });
    if (!point || series.points.size() == kMostPoints) continue;
    point->text = dot_text(dot, *point);
    series.points.push_back(std::move(*point));
  }
  for (auto& [name, series] : by_name) {
    if (series.points.empty()) continue;
    range.add(series);
    chart.series.push_back(std::move(series));
  }
}

// The kernels of a profiled step: rates are means over its steps.
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
                       .implementation = shown(record.implementation, 60),
                       .group = kKernelsGroup};
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

// The roof of every arithmetic, and the slopes of the caches up to the highest of them: a working
// set that lives in one may lie above the memory's.
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
    highest = std::max(highest, *ceilings.flops_per_s);
    if (!widest || ceilings.caches.size() > widest->caches.size()) widest = &ceilings;
  }
  if (lines.empty()) return;
  low = std::min(low, lines.front().points.front().x);
  int colour = -1;
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

// What bounds work left and right of the ridge points; between them it depends on the arithmetic.
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

// The dots that matter: of each arithmetic the closest to its roof, and of all the one that loses
// most time below it.
void name_dots(const RooflineMachine& machine, Chart& chart) {
  const RooflineDot* worst = nullptr;
  double most_lost = 0;
  std::vector<const RooflineDot*> named;
  for (const PathDots& path : machine.paths) {
    const RooflineDot* best = nullptr;
    for (const RooflineDot& dot : path.dots) {
      if (!dot.roof) continue;
      const double share = dot.flops_per_s / *dot.roof;
      const double lost = median_of(*dot.record, dot.series).value_or(0) * (1 - share);
      if (lost > most_lost) worst = &dot, most_lost = lost;
      if (share <= kCeilingSlack && (!best || share > best->flops_per_s / *best->roof)) best = &dot;
    }
    if (best) named.push_back(best);
  }
  if (worst && std::ranges::find(named, worst) == named.end()) named.push_back(worst);
  for (const RooflineDot* dot : named)
    for (ChartSeries& series : chart.series)
      for (ChartPoint& point : series.points)
        if (point.label.empty() && point.x == dot->intensity && point.y == dot->flops_per_s &&
            series.name == shown(dot->record->implementation, 40))
          point.label = fmt::format("{} {}, {:.0f} %", series.name, dot->series,
                                    100 * dot->flops_per_s / *dot->roof);
}

Chart roofline_chart(const ReportContext& context, const RooflineMachine& machine) {
  Chart chart{.id = "roofline",
              .title = "Roofline: " + machine.name,
              .description =
                  "Arithmetic intensity of every measured pass and kernel against the speed it "
                  "reached, below the ceilings of the machine; both axes logarithmic. Filled marks "
                  "are forward passes, rings other passes, crosses kernels of a profiled step."};
  RooflineRange range;
  for (const PathDots& path : machine.paths) add_dots(context, path, chart, range);
  add_kernels(context, machine, chart, range);
  if (range.xs.empty()) return chart;
  add_ceilings(machine, chart, range);
  chart.x = log_axis("arithmetic intensity, FLOP per byte", Quantity::intensity, range.xs);
  chart.y = log_axis("speed", Quantity::flops_per_s, range.ys, Better::higher);
  add_regions(machine, chart);
  name_dots(machine, chart);
  return chart;
}

// The same dots below the roofs of GPUs on paper, of which a few are shown until more are asked
// for.
Chart beside_others(const RooflineMachine& machine, Chart chart) {
  constexpr std::string_view kShown[] = {"A100 SXM 80 GB", "H100 SXM"};
  const std::string dtype =
      std::ranges::any_of(machine.paths, [](const PathDots& path) { return path.path == "bf16"; })
          ? "bf16"
          : "fp32";
  chart.id = "roofline-others";
  chart.title = fmt::format("Roofline: {}, beside the {} roofs of other machines (data sheets)",
                            machine.name, dtype);
  RooflineRange range;
  for (const ChartSeries& series : chart.series) range.add(series);
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

// "2 by memory, where fewer bytes would help, 1 by arithmetic"; empty: no bound is known.
std::string bounds_words(const std::vector<RooflineDot>& dots, bool with_advice = true) {
  struct Words {
    Bound bound;
    const char* text;
  };
  const Words kWords[] = {
      {Bound::memory, with_advice
                          ? "by memory, where fewer bytes would help (fusion, narrower dtypes)"
                          : "by memory"},
      {Bound::compute, "by arithmetic"},
      {Bound::overhead, "likely by the time to start them"}};
  std::string text;
  for (const Words& words : kWords) {
    const auto count = std::count_if(
        dots.begin(), dots.end(), [&](const RooflineDot& dot) { return dot.bound == words.bound; });
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, words.text);
  }
  return text;
}

size_t placed_among(const std::vector<RooflineDot>& dots) {
  return static_cast<size_t>(
      std::ranges::count_if(dots, [](const RooflineDot& dot) { return dot.bound.has_value(); }));
}

// The summary speaks of those above the roof.
const RooflineDot* closest_of(const std::vector<RooflineDot>& dots) {
  const RooflineDot* best = nullptr;
  for (const RooflineDot& dot : dots) {
    if (!dot.roof || dot.flops_per_s > kCeilingSlack * *dot.roof) continue;
    if (!best || dot.flops_per_s / *dot.roof > best->flops_per_s / *best->roof) best = &dot;
  }
  return best;
}

// One sentence per machine and arithmetic: how far from the ceilings, what bounds the dots, and
// what the ceilings are.
std::string in_words(const std::string& machine, const PathDots& path) {
  const Ceilings& ceilings = path.ceilings;
  const std::string view = fmt::format("{}, {}", machine, path.path);
  if (!ceilings.flops_per_s)
    return fmt::format("{}: no ceiling is known for this machine and arithmetic.", view);
  const RooflineDot* best = closest_of(path.dots);
  const auto unknown = std::ranges::count(path.dots, false, &RooflineDot::path_is_known);
  std::string text = view + ":";
  if (best)
    text += fmt::format(" closest to the roof is {} {} ({}) with {:.0f} %.",
                        shown(best->record->implementation, 40), best->series,
                        workload_words(*best->record), 100 * best->flops_per_s / *best->roof);
  if (const std::string bounds = bounds_words(path.dots); ceilings.bytes_per_s && !bounds.empty())
    text += fmt::format(" Of {}, bounded: {}.", counted(placed_among(path.dots), "dot"), bounds);
  text += fmt::format(" {} roof is {}", best ? "The" : "the",
                      quantity_text(Quantity::flops_per_s, *ceilings.flops_per_s));
  if (ceilings.bytes_per_s)
    text += fmt::format(" and {:.4g} GB/s, the ridge at {:.3g} FLOP/byte",
                        *ceilings.bytes_per_s / 1e9, *ceilings.flops_per_s / *ceilings.bytes_per_s);
  text += fmt::format(" ({}).", ceilings.source);
  if (unknown > 0)
    text += fmt::format(
        " {} held against the ceiling of the dtype: older records and those of peers do not say "
        "which arithmetic ran.",
        unknown == 1 ? "1 dot is" : fmt::format("{} dots are", unknown));
  return text;
}

// Of all arithmetic of one machine.
void answer_roofline(const RooflineMachine& machine, ReportSection& section) {
  std::vector<RooflineDot> all;
  bool is_measured = false;
  for (const PathDots& path : machine.paths) {
    all.insert(all.end(), path.dots.begin(), path.dots.end());
    is_measured = is_measured || path.ceilings.source.starts_with("measured");
  }
  const RooflineDot* best = closest_of(all);
  if (!best) {
    section.answer = fmt::format("{} has no ceiling to hold {} against.", machine.name,
                                 counted(all.size(), "measured pass"));
    return;
  }
  std::vector<double> shares;
  for (const RooflineDot& dot : all)
    if (dot.roof) shares.push_back(dot.flops_per_s / *dot.roof);
  std::ranges::nth_element(shares, shares.begin() + std::ssize(shares) / 2);
  section.answer = fmt::format(
      "Of {} measured passes, bounded: {}. Half of them reach less than {:.0f} % of their roof; "
      "the "
      "closest is {} {} with {:.0f} %.",
      placed_among(all), bounds_words(all, /*with_advice=*/false), 100 * shares[shares.size() / 2],
      shown(best->record->implementation, 40), best->series, 100 * best->flops_per_s / *best->roof);
  section.certainty = {
      .level = Certainty::Level::measured,
      .why = is_measured ? "Below ceilings measured on this machine; bytes are counted."
                         : "Below ceilings of data sheets: `ridgeline roofline` measures this "
                           "machine's."};
}

}  // namespace

ReportSection roofline_section(const ReportContext& context) {
  ReportSection section{.id = "roofline",
                        .title = "Roofline",
                        .question = "What bounds the work, and how far is it from the roof?"};
  for (const RooflineMachine& machine : machines_of(context)) {
    if (section.views.size() + 2 > kMostViews) break;
    Chart chart = roofline_chart(context, machine);
    if (chart.series.empty()) continue;
    if (section.answer.empty()) answer_roofline(machine, section);
    Chart others = beside_others(machine, chart);
    section.views.push_back({.name = machine.name, .charts = {std::move(chart)}});
    section.views.push_back({.name = machine.name + ", beside the roofs of other machines",
                             .charts = {std::move(others)}});
    for (const PathDots& path : machine.paths)
      section.sentences.push_back(in_words(machine.name, path));
  }
  if (!section.empty())
    section.sentences.emplace_back(
        "FLOPs are those of the products that run, an FMA as two, unlike the convention's of the "
        "tables; bytes count every operand of every kernel once, so that a fused kernel lies "
        "further to the right.");
  return section;
}

}  // namespace ridgeline

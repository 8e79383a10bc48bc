// The roofline: every measured pass by its arithmetic intensity, below the ceilings of its machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "cost/device_specs.h"
#include "measure/speed_of_light.h"
#include "report/page/axis.h"
#include "report/page/sections.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

constexpr size_t kMostPoints = 400;  // of one series: more are a cloud

struct Ceilings {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
  std::string source = {};
  std::vector<MemoryCeiling> caches = {};  // measured; the smallest first

  std::optional<double> roof(double intensity) const {
    if (bytes_per_s && flops_per_s) return std::min(*flops_per_s, *bytes_per_s * intensity);
    return flops_per_s;
  }
};

// On paper, in one dtype.
Peaks spec_peaks(const Record& record, std::string_view dtype) {
  if (record.machine.gpu) {
    const GpuFacts& gpu = *record.machine.gpu;
    if (const GpuSpec* spec = find_gpu_spec(gpu.model); spec && dense_tflops(*spec, dtype) > 0)
      return {dense_tflops(*spec, dtype) * 1e12, spec->gigabytes_per_s * 1e9,
              fmt::format("data sheet of {}, dense", spec->name)};
    return {gpu_flops_per_s({.model = gpu.model,
                             .compute_capability = compute_capability(gpu.arch),
                             .multiprocessors = gpu.multiprocessors,
                             .clock_hz = gpu.max_clock_mhz * 1e6},
                            dtype),
            std::nullopt, "multiprocessors x clock x FLOPs per cycle"};
  }
  if (record.device != "cpu") return {};
  const std::string isa = text_at(record.settings, "isa");
  constexpr int64_t kMostThreads = 1 << 20;  // a file may say anything
  const int64_t threads = positive_at(record.settings, "threads").value_or(1);
  return cpu_peaks({.isa = isa,
                    .dtype = dtype,
                    .threads = static_cast<int>(std::min(threads, kMostThreads)),
                    .max_clock_hz = generous_max_clock_hz(record.machine),
                    .features = record.machine.isa});
}

Ceilings spec_ceilings(const Record& record, const Arithmetic& arithmetic) {
  const Peaks peaks = spec_peaks(record, arithmetic.parts.front().dtype);
  return {arithmetic.ceiling(
              [&](std::string_view dtype) { return spec_peaks(record, dtype).flops_per_s; }),
          peaks.bytes_per_s, peaks.derivation};
}

// Measured on the same machine where `ridgeline roofline` ran there, else from paper.
Ceilings ceilings_of(const ReportContext& context, const Record& record,
                     const Arithmetic& arithmetic) {
  Ceilings ceilings = spec_ceilings(record, arithmetic);
  const Roofline* measured = roofline_of(record, context.rooflines);
  if (!measured) return ceilings;
  if (const auto compute = measured_ceiling(*measured, arithmetic)) {
    ceilings.flops_per_s = compute;
    ceilings.source = "measured:";
    for (const ProductPart& part : arithmetic.parts)
      ceilings.source += " " + shown(measured->find_compute(part.dtype)->probe, 40);
  }
  if (const MemoryCeiling* memory = measured->main_memory()) ceilings.bytes_per_s = memory->rate;
  std::copy_if(measured->memory.begin(), measured->memory.end(),
               std::back_inserter(ceilings.caches),
               [](const MemoryCeiling& level) { return level.capacity > Bytes{}; });
  return ceilings;
}

// What a pass may reach: a working set that lives in a cache has the cache's roof, where measured.
std::optional<double> roof_of(const ReportContext& context, const Record& record,
                              const Ceilings& ceilings, double intensity, Bytes working_set) {
  const Roofline* measured = roofline_of(record, context.rooflines);
  const MemoryCeiling* level =
      measured
          ? measured->find_memory(working_set, text_at(record.settings, "mode").starts_with("cold"))
          : nullptr;
  if (level == nullptr || !ceilings.flops_per_s) return ceilings.roof(intensity);
  return std::min(*ceilings.flops_per_s, intensity * level->rate);
}

std::string view_of(const RooflineDot& dot) {
  const Record& record = *dot.record;
  const std::string device = record.machine.gpu ? shown(record.machine.gpu->model, 40)
                             : record.machine.cpu_model.empty()
                                 ? shown(record.device, 20)
                                 : shown(record.machine.cpu_model, 60);
  return fmt::format("{}, {}", device, dot.path.empty() ? "dtype unknown" : dot.path);
}

std::string workload_words(const Record& record) {
  std::string text;
  for (const char* key : {"model_size", "context_length", "batch_size", "heads", "seq_len",
                          "d_model", "head_dim", "m", "n", "k"})
    if (const std::string value = text_at(record.workload, key); !value.empty())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  return text;
}

// The roof, and the slopes of the caches up to it: a working set that lives in one may lie above
// the memory's.
std::vector<ChartSeries> ceiling_series(const Ceilings& ceilings, double low, double high) {
  ChartSeries series{.mark = ChartSeries::Mark::line, .colour = -1};
  const double peak = *ceilings.flops_per_s;
  series.name = fmt::format("roof: {}", quantity_text(Quantity::flops_per_s, peak));
  if (ceilings.bytes_per_s) {
    const double ridge = peak / *ceilings.bytes_per_s;
    series.name += fmt::format(", {:.4g} GB/s", *ceilings.bytes_per_s / 1e9);
    low = std::min(low, ridge / 4);
    high = std::max(high, ridge * 4);
    series.points.push_back({low, low * *ceilings.bytes_per_s, "memory bandwidth"});
    series.points.push_back({ridge, peak, fmt::format("the ridge: {:.3g} FLOP/byte", ridge)});
  } else {
    series.points.push_back({low, peak, "compute peak"});
  }
  series.points.push_back({high, peak, "compute peak"});
  std::vector<ChartSeries> all = {std::move(series)};
  // From the largest to the smallest, each paler than the one before.
  for (auto cache = ceilings.caches.rbegin(); cache != ceilings.caches.rend(); ++cache) {
    const double ridge = peak / cache->rate;
    if (ridge <= low) continue;
    const std::string name =
        fmt::format("{}: {:.4g} GB/s", shown(cache->level, 20), cache->rate / 1e9);
    all.push_back({.name = name,
                   .mark = ChartSeries::Mark::line,
                   .colour = all.back().colour - 1,
                   .points = {{low, low * cache->rate, name}, {ridge, peak, name}}});
  }
  return all;
}

struct Placed {
  std::vector<RooflineDot> dots;
  Ceilings ceilings;
};

Chart roofline_chart(const ReportContext& context, const std::string& view, const Placed& placed) {
  Chart chart{.id = "roofline",
              .title = "Roofline: " + view,
              .description =
                  "Arithmetic intensity of every measured pass against the speed it "
                  "reached, below the ceilings of the machine; both axes logarithmic."};
  std::map<std::string, ChartSeries> by_name;
  std::vector<double> xs, ys;
  for (const RooflineDot& dot : placed.dots) {
    const std::string name =
        fmt::format("{}, {}", shown(dot.record->implementation, 40), dot.series);
    ChartSeries& series = by_name[name];
    series.name = name;
    series.mark = dot.series == "forward" ? ChartSeries::Mark::points : ChartSeries::Mark::rings;
    series.colour = context.colour(dot.record->implementation);
    xs.push_back(dot.intensity);
    ys.push_back(dot.flops_per_s);
    if (series.points.size() == kMostPoints) continue;
    std::string text =
        fmt::format("{}: {} at {:.3g} FLOP/byte", workload_words(*dot.record),
                    quantity_text(Quantity::flops_per_s, dot.flops_per_s), dot.intensity);
    if (dot.roof) text += fmt::format(", {:.0f} % of the roof", 100 * dot.flops_per_s / *dot.roof);
    // Parts in several ways differ in their shares, so that each has a roof of its own.
    if (dot.roof && dot.several_paths)
      text += fmt::format(" of its own, {}", quantity_text(Quantity::flops_per_s, *dot.roof));
    series.points.push_back({dot.intensity, dot.flops_per_s, std::move(text)});
  }
  if (placed.ceilings.flops_per_s && !xs.empty()) {
    const auto [low, high] = std::minmax_element(xs.begin(), xs.end());
    for (ChartSeries& ceiling : ceiling_series(placed.ceilings, *low / 2, *high * 2)) {
      for (const ChartPoint& point : ceiling.points) {
        xs.push_back(point.x);
        ys.push_back(point.y);
      }
      chart.series.push_back(std::move(ceiling));
    }
  }
  for (auto& [name, series] : by_name) chart.series.push_back(std::move(series));
  chart.x = log_axis("arithmetic intensity, FLOP per byte", Quantity::intensity, xs);
  chart.y = log_axis("speed", Quantity::flops_per_s, ys);
  return chart;
}

// "8 of 12 dots are bounded by memory: ...", for each bound that some have.
std::string bounds_words(const std::vector<RooflineDot>& dots) {
  struct Words {
    Bound bound;
    const char* text;
  };
  constexpr Words kWords[] = {
      {Bound::memory, "by memory, where fewer bytes would help (fusion, narrower dtypes)"},
      {Bound::compute, "by arithmetic"},
      {Bound::overhead, "likely by the time to start them"}};
  std::string text;
  size_t placed = 0;
  for (const RooflineDot& dot : dots) placed += dot.bound ? 1 : 0;
  for (const Words& words : kWords) {
    const auto count = std::count_if(
        dots.begin(), dots.end(), [&](const RooflineDot& dot) { return dot.bound == words.bound; });
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, words.text);
  }
  return text.empty() ? text : fmt::format(" Of {}, bounded: {}.", counted(placed, "dot"), text);
}

// One sentence per view: how far from the ceilings, what bounds the dots, and what the ceilings
// are.
std::string in_words(const std::string& view, const Placed& placed) {
  const Ceilings& ceilings = placed.ceilings;
  if (!ceilings.flops_per_s)
    return fmt::format("{}: no ceiling is known for this machine and arithmetic.", view);
  const RooflineDot* best = nullptr;
  size_t unknown = 0;
  for (const RooflineDot& dot : placed.dots) {
    unknown += dot.path_is_known ? 0 : 1;
    // The summary speaks of those above.
    if (!dot.roof || dot.flops_per_s > kCeilingSlack * *dot.roof) continue;
    if (!best || dot.flops_per_s / *dot.roof > best->flops_per_s / *best->roof) best = &dot;
  }
  std::string text = view + ":";
  if (best)
    text += fmt::format(" closest to the roof is {} {} ({}) with {:.0f} %.",
                        shown(best->record->implementation, 40), best->series,
                        workload_words(*best->record), 100 * best->flops_per_s / *best->roof);
  if (ceilings.bytes_per_s) text += bounds_words(placed.dots);
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

}  // namespace

std::vector<RooflineDot> roofline_dots(const ReportContext& context) {
  std::vector<RooflineDot> dots;
  for (const Record* record : context.rows) {
    if (record->status != Status::ok || record->study == "roofline") continue;
    for (const Series& series : record->series) {
      const auto cost = cost_of(*record, series.name);
      const auto median = median_of(*record, series.name);
      if (!cost || !median || *median <= 0 || cost->bytes.count <= 0 || flops_done(*cost) <= 0)
        continue;
      const Arithmetic arithmetic = arithmetic_of(*record, series.name);
      const Ceilings ceilings = ceilings_of(context, *record, arithmetic);
      RooflineDot dot{.record = record,
                      .series = series.name,
                      .path = shown(arithmetic.name(), 60),
                      .path_is_known = !is_ambiguous(*record, arithmetic),
                      .several_paths = arithmetic.parts.size() > 1};
      dot.intensity = flops_done(*cost) / static_cast<double>(cost->bytes.count);
      dot.flops_per_s = flops_done(*cost) / *median * 1e3;
      dot.roof = roof_of(context, *record, ceilings, dot.intensity, cost->bytes);
      if (dot.roof)
        dot.bound =
            bound_of(*median / 1e3, dot.flops_per_s / *dot.roof, *dot.roof < *ceilings.flops_per_s);
      dots.push_back(std::move(dot));
    }
  }
  return dots;
}

ReportSection roofline_section(const ReportContext& context) {
  ReportSection section{.id = "roofline", .title = "Roofline"};
  std::map<std::string, Placed> views;
  for (RooflineDot& dot : roofline_dots(context)) {
    Placed& placed = views[view_of(dot)];
    if (placed.dots.empty())
      placed.ceilings = ceilings_of(context, *dot.record, arithmetic_of(*dot.record, dot.series));
    placed.dots.push_back(std::move(dot));
  }
  for (const auto& [name, placed] : views) {
    if (section.views.size() == kMostViews) break;
    section.views.push_back({.name = name, .charts = {roofline_chart(context, name, placed)}});
    section.sentences.push_back(in_words(name, placed));
  }
  if (!section.empty())
    section.sentences.emplace_back(
        "FLOPs are those of the products that run, an FMA as two, unlike the convention's of the "
        "tables; bytes count every operand of every kernel once, so that a fused kernel lies "
        "further to the right.");
  return section;
}

}  // namespace ridgeline

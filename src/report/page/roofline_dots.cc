#include "report/page/roofline_dots.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cost/device_specs.h"
#include "measure/record_values.h"
#include "measure/speed_of_light.h"
#include "report/page/quiet.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

// Peaks on paper, in one dtype.
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

}  // namespace

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
  if (const MemoryCeiling* memory = measured->main_memory()) {
    ceilings.bytes_per_s = memory->rate;
    ceilings.memory_probe = shown(memory->probe, 40);
  }
  for (const MemoryCeiling& level : measured->reads)
    if (level.capacity == Bytes{}) ceilings.loads = level;
  std::copy_if(measured->memory.begin(), measured->memory.end(),
               std::back_inserter(ceilings.caches),
               [](const MemoryCeiling& level) { return level.capacity > Bytes{}; });
  return ceilings;
}

namespace {

// Sets the roof of a dot: that of a measured cache if the working set fits it, or of loads alone if
// the row was compared with that when it was measured, so that all sections agree.
void take_roof(const ReportContext& context, const Ceilings& ceilings, Bytes working_set,
               RooflineDot& dot) {
  const Record& record = *dot.record;
  dot.slope = kOfMemory;
  dot.roof = ceilings.roof(dot.intensity);
  dot.slope_is_known = ceilings.bytes_per_s.has_value();
  const Roofline* measured = roofline_of(record, context.rooflines);
  if (!measured || !ceilings.flops_per_s) return;
  const MemoryCeiling* level = measured->slope_of(record, dot.series, working_set);
  if (level == nullptr) return;
  dot.slope_is_known = true;
  dot.slope = level->capacity == Bytes{} && level->probe.starts_with(kReadProbe)
                  ? kOfLoads
                  : shown(level->level, 20);
  dot.roof = std::min(*ceilings.flops_per_s, dot.intensity * level->rate);
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
      take_roof(context, ceilings, cost->bytes, dot);
      if (dot.roof)
        dot.bound =
            bound_of(*median / 1e3, dot.flops_per_s / *dot.roof, *dot.roof < *ceilings.flops_per_s);
      dots.push_back(std::move(dot));
    }
  }
  return dots;
}

std::string work_of(const Record& record) {
  struct Work {
    std::string_view study, words;
  };
  constexpr Work kWorks[] = {{"attention", "attention"},    {"kernel", "attention kernels"},
                             {"gemm", "matrix products"},   {"model", "whole models"},
                             {"decode", "a decoder layer"}, {"generate", "generated text"},
                             {"ddp", "training on ranks"}};
  const auto* known = std::ranges::find(kWorks, record.study, &Work::study);
  return known == std::end(kWorks) ? shown(record.study, 30) : std::string(known->words);
}

std::string size_words(const Record& record) {
  struct Key {
    const char *key, *word;
  };
  constexpr Key kKeys[] = {{"part", ""},         {"phase", ""},
                           {"op", ""},           {"model_size", ""},
                           {"model_config", ""}, {"context_length", "context "},
                           {"seq_len", "S "},    {"prompt_length", "prompt "},
                           {"m", "m "},          {"n", "n "},
                           {"k", "k "},          {"d_model", "d "},
                           {"head_dim", "d "},   {"batch_size", "batch "},
                           {"heads", "heads "}};
  std::string text;
  for (const auto& [key, word] : kKeys)
    if (const std::string value = text_at(record.workload, key); !value.empty())
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", word, value);
  const std::string cache = text_at(record.workload, "cache");
  return cache == "off" ? text + ", without a cache" : text;
}

std::string short_size(const Record& record) {
  // A part of a layer has no size of its own: part, phase and batch identify it.
  if (const std::string part = text_at(record.workload, "part"); !part.empty())
    return fmt::format("{} {}, batch {}{}", part, text_at(record.workload, "phase"),
                       text_at(record.workload, "batch_size"),
                       text_at(record.workload, "cache") == "off" ? ", no cache" : "");
  for (const auto& [key, word] :
       {std::pair("seq_len", "S "), {"n", "n "}, {"context_length", "context "}})
    if (const std::string value = text_at(record.workload, key); !value.empty())
      return word + value;
  return text_at(record.workload, "phase");
}

std::string preferred_words(const std::vector<const RooflineDot*>& dots, const RooflineDot& best) {
  const bool is_closest = std::ranges::none_of(dots, [&](const RooflineDot* dot) {
    return dot->roof && dot->share() <= kCeilingSlack && dot->share() > best.share();
  });
  return is_closest ? "" : fmt::format(" of those known to within {:.0f} %", kNarrowPercent);
}

const RooflineDot* closest_to_roof(const std::vector<const RooflineDot*>& dots) {
  const auto rank = [](const RooflineDot& dot) {
    const auto width = in_run_percent(*dot.record, dot.series);
    return std::pair(width && *width <= kNarrowPercent, dot.share());
  };
  const RooflineDot* best = nullptr;
  for (const RooflineDot* dot : dots)
    if (dot->roof && dot->share() <= kCeilingSlack && (!best || rank(*dot) > rank(*best)))
      best = dot;
  return best;
}

DotBound dot_bound(const RooflineDot& dot) {
  DotBound bound{.share = fmt::format("{:.{}f} %", 100 * dot.share(), dot.share() < 0.01 ? 1 : 0)};
  if (!dot.bound || *dot.bound == Bound::overhead) {
    bound.by = "its start (below 10 us), likely";
    bound.roof = "the roof";
    bound.of_roof = bound.share + " of the roof";
    return bound;
  }
  const bool is_memory = *dot.bound == Bound::memory;
  const bool is_cache = is_memory && dot.slope != kOfMemory && dot.slope != kOfLoads;
  const std::string which = is_cache    ? "the " + dot.slope + " cache"
                            : is_memory ? "memory"
                                        : "arithmetic";
  bound.roof = is_cache                             ? fmt::format("the {} roof", dot.slope)
               : is_memory && dot.slope == kOfLoads ? "the memory roof of loads"
                                                    : fmt::format("the {} roof", which);
  using enum DotBound::Kind;
  bound.kind = dot.share() > kCeilingSlack ? above
               : dot.share() >= kAtTheRoof ? (is_memory ? memory : arithmetic)
               : dot.slope_is_known        ? own_code
                                           : unknown;
  const char* own = is_disturbed(*dot.record) ? "its own code or other work" : "its own code";
  bound.by = bound.kind == above      ? "no known roof"
             : bound.kind == own_code ? own
             : bound.kind == unknown  ? fmt::format("memory, of unknown bandwidth, or {}", own)
                                      : which;
  bound.of_roof = fmt::format("{} of {}{}", bound.share, bound.roof,
                              bound.kind != above ? ""
                              : dot.path_is_known ? ", which is too low"
                                                  : ", which may be another arithmetic's");
  return bound;
}

std::string bound_words(const RooflineDot& dot) {
  if (!dot.bound) return {};
  const DotBound bound = dot_bound(dot);
  return fmt::format("{} ({})", bound.by, bound.of_roof);
}

std::string short_bound(const RooflineDot& dot) {
  if (!dot.bound) return {};
  const DotBound bound = dot_bound(dot);
  using enum DotBound::Kind;
  return fmt::format("{}, {}",
                     bound.kind == start         ? "start, likely"
                     : bound.kind == unknown     ? "memory or own code"
                     : bound.kind != own_code    ? bound.by
                     : is_disturbed(*dot.record) ? "own code or other"
                                                 : "own code",
                     bound.share);
}

}  // namespace ridgeline

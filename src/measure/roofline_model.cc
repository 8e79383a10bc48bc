#include "measure/roofline_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/enum_names.h"
#include "base/sort_by.h"
#include "measure/record_values.h"

namespace ridgeline {
namespace {

double number_at(const Json& object, const char* key) {
  const Json* found = object.find_key(key);
  if (!found || !found->is_number()) return 0;
  const double value = found->get<double>();
  return std::isfinite(value) && value > 0 ? value : 0;
}

std::string set_up_of(const Record& record) {
  return fmt::format("{:.0f} {}", number_at(record.settings, "threads"),
                     text_of(record.settings, "isa"));
}

bool belongs(const Record& record, const Roofline& roofline) {
  return record.machine.fingerprint == roofline.fingerprint && record.device == roofline.device &&
         set_up_of(record) == roofline.set_up;
}

std::string title_of(const Record& record) {
  return record.machine.gpu && record.device == "cuda" ? record.machine.gpu->model
                                                       : record.machine.cpu_model;
}

std::string probe_name(const Record& record) {
  const double size = number_at(record.workload, "size");
  return size > 0 ? fmt::format("{} {:.0f}", record.implementation, size) : record.implementation;
}

template <class Ceiling, class Same>
void keep_best(std::vector<Ceiling>& all, Ceiling ceiling, Same same) {
  const auto found = std::find_if(all.begin(), all.end(), same);
  if (found == all.end())
    all.push_back(std::move(ceiling));
  else if (ceiling.rate > found->rate)
    *found = std::move(ceiling);
}

void add_ceiling(Roofline& roofline, const Record& record) {
  const Json metrics = record.metrics.value_or(Json::object());
  const std::string resource = text_of(record.workload, "ceiling");
  if (resource == "compute") {
    const double rate = 1e9 * number_at(metrics, "gflops_per_s");
    if (rate <= 0) return;
    ComputeCeiling ceiling{.dtype = text_of(record.workload, "dtype"),
                           .probe = probe_name(record),
                           .rate = rate,
                           .burst = 1e9 * number_at(metrics, "burst_gflops_per_s"),
                           .spec = 1e9 * number_at(metrics, "spec_gflops_per_s")};
    const std::string dtype = ceiling.dtype;
    keep_best(roofline.compute, std::move(ceiling),
              [&](const ComputeCeiling& each) { return each.dtype == dtype; });
  } else if (resource == "memory") {
    const double rate = 1e9 * number_at(metrics, "gb_per_s");
    if (rate <= 0) return;
    MemoryCeiling ceiling{.level = text_of(record.workload, "level"),
                          .probe = record.implementation,
                          .rate = rate,
                          .spec = 1e9 * number_at(metrics, "spec_gb_per_s"),
                          .capacity = Bytes{bounded_integer(number_at(metrics, "capacity_bytes"))}};
    const std::string level = ceiling.level;
    std::vector<MemoryCeiling>& levels =
        ceiling.probe.starts_with(kReadProbe) ? roofline.reads : roofline.memory;
    keep_best(levels, std::move(ceiling),
              [&](const MemoryCeiling& each) { return each.level == level; });
  }
}

std::string workload_of(const Record& record) {
  std::string text = record.implementation;
  for (const auto& [key, value] : record.workload.items())
    if (value.is_number_integer() && key != "num_params")
      text += fmt::format(" {}={}", key, value.dump());
    else if (value.is_string() && key != "dtype" && key != "precision")
      text += fmt::format(" {}", value.get<std::string>());
    else if (value.is_boolean() && value.get<bool>())
      text += " " + key;
  return text;
}

// A shorter call is mostly launch overhead if its roof explains less than half of its time.
constexpr double kOverheadSeconds = 10e-6;
constexpr double kMostlyOverhead = 0.5;

}  // namespace

const ComputeCeiling* Roofline::find_compute(std::string_view dtype) const {
  for (const ComputeCeiling& ceiling : compute)
    if (ceiling.dtype == dtype) return &ceiling;
  return nullptr;
}

const MemoryCeiling* Roofline::main_memory() const {
  return memory.empty() || memory.back().capacity > Bytes{} ? nullptr : &memory.back();
}

const MemoryCeiling* Roofline::find_memory(Bytes working_set, bool cold) const {
  const MemoryCeiling* fastest = main_memory();
  if (cold) return fastest;
  for (const MemoryCeiling& ceiling : memory)
    if (ceiling.capacity >= working_set && (fastest == nullptr || ceiling.rate > fastest->rate))
      fastest = &ceiling;
  return fastest;
}

const MemoryCeiling* Roofline::slope_of(const Record& record, std::string_view series,
                                        Bytes working_set) const {
  const Json* of = record.metrics ? record.metrics->find_key(series) : nullptr;
  if (of && text_of(*of, "memory_probe").starts_with(kReadProbe) && !reads.empty() &&
      reads.back().capacity == Bytes{})
    return &reads.back();
  return find_memory(working_set, text_of(record.settings, "mode").starts_with("cold"));
}

Roofline Roofline::for_reading() const {
  Roofline roofline = *this;
  for (MemoryCeiling& level : roofline.memory)
    for (const MemoryCeiling& read : reads)
      if (read.level == level.level) level = read;
  return roofline;
}

std::optional<double> Roofline::ridge(std::string_view dtype) const {
  const ComputeCeiling* top = find_compute(dtype);
  const MemoryCeiling* slope = main_memory();
  if (top == nullptr || slope == nullptr) return std::nullopt;
  return top->rate / slope->rate;
}

std::vector<Roofline> rooflines(std::span<const Record> records) {
  std::map<std::string, const Record*> latest;
  for (const Record& record : records)
    if (record.study == "roofline" && record.status == Status::ok)
      latest[record.machine.fingerprint + workload_key(record)] = &record;
  std::vector<Roofline> all;
  for (const auto& [key, record] : latest) {
    auto found = std::find_if(all.begin(), all.end(),
                              [&of = *record](const Roofline& each) { return belongs(of, each); });
    if (found == all.end()) {
      all.push_back({.device = record->device,
                     .title = title_of(*record),
                     .fingerprint = record->machine.fingerprint,
                     .set_up = set_up_of(*record),
                     .compute = {},
                     .memory = {},
                     .reads = {}});
      found = all.end() - 1;
    }
    add_ceiling(*found, *record);
    found->load = std::max(found->load, record->machine.load_average.value_or(0));
    found->cores = record->machine.logical_cores;
  }
  for (Roofline& roofline : all)
    for (std::vector<MemoryCeiling>* levels : {&roofline.memory, &roofline.reads})
      sort_by(*levels, [](const MemoryCeiling& each) {
        return std::pair(each.capacity == Bytes{}, each.capacity);
      });
  return all;
}

Roofline data_sheet_roofline(const GpuSpec& spec) {
  constexpr const char* kSource = "data sheet";
  Roofline roofline{.device = "cuda",
                    .title = std::string(spec.name),
                    .fingerprint = {},
                    .set_up = kSource,
                    .compute = {},
                    .memory = {},
                    .reads = {}};
  for (const char* dtype : {"fp32", "tf32", "fp16", "bf16", "fp8"})
    if (const double rate = 1e12 * dense_tflops(spec, dtype); rate > 0)
      roofline.compute.push_back({.dtype = dtype, .probe = kSource, .rate = rate, .spec = rate});
  const double bandwidth = 1e9 * spec.gigabytes_per_s;
  roofline.memory.push_back(
      {.level = "memory", .probe = kSource, .rate = bandwidth, .spec = bandwidth});
  return roofline;
}

const Roofline* roofline_of(const Record& record, std::span<const Roofline> all) {
  for (const Roofline& roofline : all)
    if (belongs(record, roofline)) return &roofline;
  return nullptr;
}

std::optional<PhaseCost> cost_of(const Record& record, std::string_view series) {
  if (!record.cost) return std::nullopt;
  const PhaseCost& forward = record.cost->forward;
  const PhaseCost& backward = record.cost->backward;
  if (series == "backward") return backward;
  if (series == "fwd_bwd" || series == "full_step")
    return PhaseCost{bounded_sum(forward.flops, backward.flops),
                     bounded_sum(forward.macs, backward.macs), forward.bytes + backward.bytes};
  if (series == "forward" || record.series.size() == 1) return forward;
  return std::nullopt;
}

double flops_done(const PhaseCost& cost) {
  return cost.macs > 0 ? 2.0 * static_cast<double>(cost.macs) : static_cast<double>(cost.flops);
}

std::optional<double> attainable(const Roofline& roofline, std::string_view dtype, double intensity,
                                 Bytes working_set, bool cold) {
  const ComputeCeiling* top = roofline.find_compute(dtype);
  const MemoryCeiling* slope = roofline.find_memory(working_set, cold);
  if (top == nullptr || slope == nullptr) return std::nullopt;
  return std::min(top->rate, intensity * slope->rate);
}

std::optional<double> measured_ceiling(const Roofline& roofline, const Arithmetic& arithmetic) {
  return arithmetic.ceiling([&](std::string_view dtype) -> std::optional<double> {
    const ComputeCeiling* ceiling = roofline.find_compute(dtype);
    return ceiling == nullptr ? std::nullopt : std::optional(ceiling->rate);
  });
}

Bound bound_of(double seconds, double share, bool below_ridge) {
  if (seconds < kOverheadSeconds && share < kMostlyOverhead) return Bound::overhead;
  return below_ridge ? Bound::memory : Bound::compute;
}

std::vector<RooflinePoint> place(std::span<const Record> records, const Roofline& roofline) {
  std::vector<RooflinePoint> points;
  for (const Record& record : records) {
    if (record.study == "roofline" || record.status != Status::ok || !record.cost ||
        !belongs(record, roofline))
      continue;
    for (const Series& series : record.series) {
      const Arithmetic arithmetic = arithmetic_of(record, series.name);
      const std::optional<double> top = measured_ceiling(roofline, arithmetic);
      const std::optional<PhaseCost> cost = cost_of(record, series.name);
      if (!top || !cost || cost->bytes.count <= 0 || flops_done(*cost) <= 0) continue;
      const double seconds = series.statistics.median_ms / 1e3;
      if (!std::isfinite(seconds) || seconds <= 0) continue;
      const MemoryCeiling* slope = roofline.slope_of(record, series.name, cost->bytes);
      if (slope == nullptr) continue;
      RooflinePoint point{.record = &record,
                          .phase = series.name,
                          .dtype = arithmetic.dtype,
                          .path = arithmetic.name(),
                          .path_is_known = !is_ambiguous(record, arithmetic),
                          .workload = workload_of(record),
                          .flops = flops_done(*cost),
                          .bytes = static_cast<double>(cost->bytes.count),
                          .seconds = seconds,
                          .ceiling = *top,
                          .level = slope->level};
      point.intensity = point.flops / point.bytes;
      point.rate = point.flops / seconds;
      point.attainable = std::min(*top, point.intensity * slope->rate);
      point.share = point.rate / point.attainable;
      point.bound = bound_of(seconds, point.share, point.attainable < *top);
      points.push_back(std::move(point));
    }
  }
  return points;
}

std::string_view name(Bound bound) {
  constexpr EnumNames<Bound, Bound::overhead> kNames("compute", "memory", "overhead");
  return kNames[bound];
}

}  // namespace ridgeline

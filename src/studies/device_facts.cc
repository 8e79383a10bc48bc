#include "studies/device_facts.h"

namespace ridgeline {
namespace {

GpuLimits gpu_limits(const DeviceFacts& facts, double clock_hz) {
  return {.model = facts.model,
          .compute_capability = compute_capability(facts.isa),
          .multiprocessors = facts.multiprocessors,
          .clock_hz = clock_hz};
}

Peaks cpu_device_peaks(const DeviceFacts& facts, const MachineFacts& machine,
                       std::string_view dtype, double clock_hz) {
  return cpu_peaks({.isa = facts.isa,
                    .dtype = dtype,
                    .threads = facts.threads,
                    .max_clock_hz = clock_hz,
                    .features = machine.isa});
}

}  // namespace

void add_device(MachineFacts& machine, const Device& device) {
  const DeviceFacts facts = device.facts();
  if (!facts.is_gpu()) return;
  machine.gpu = GpuFacts{.model = facts.model,
                         .arch = facts.isa,
                         .multiprocessors = facts.multiprocessors,
                         .l2 = Bytes{facts.l2_bytes},
                         .max_clock_mhz = facts.max_clock_hz / 1e6,
                         .software = device.description()};
  machine.fingerprint = fingerprint(machine);
}

std::optional<DeviceState> device_state(const Device& device) {
  const std::optional<GpuState> state = device.state();
  if (!state) return std::nullopt;
  return DeviceState{.clock_mhz = state->sm_clock_mhz,
                     .memory_clock_mhz = state->memory_clock_mhz,
                     .clocks_locked = state->clocks_locked,
                     .power_w = state->power_w,
                     .temperature_c = state->temperature_c,
                     .throttle_reasons = state->throttle_reasons};
}

Json device_settings(const Device& device, uint64_t seed) {
  const DeviceFacts facts = device.facts();
  Json settings = Json::object();
  if (facts.threads > 0) settings["threads"] = facts.threads;
  settings["isa"] = facts.isa;
  settings["seed"] = seed;
  if (!facts.model.empty()) settings["gpu"] = facts.model;
  if (facts.deterministic) settings["deterministic"] = true;
  return settings;
}

Json arithmetic_metrics(const Graph& graph, const Device& device) {
  Json metrics = Json::object();
  const auto path_of = [&](Op op, DType dtype) { return device.product_path(op, dtype); };
  for (const Stage& stage : graph.stages()) {
    Json paths = Json::array();
    for (const PathMacs& each : product_paths(graph, stage, path_of))
      paths.push_back({{"dtype", info(each.path.dtype).name},
                       {"products", each.path.products},
                       {"macs", static_cast<int64_t>(each.macs)}});
    if (!paths.empty()) metrics[stage.name] = std::move(paths);
  }
  return metrics;
}

Peaks device_peaks(const DeviceFacts& facts, const MachineFacts& machine, std::string_view dtype) {
  if (facts.is_gpu()) return gpu_peaks(gpu_limits(facts, facts.max_clock_hz), dtype);
  return cpu_device_peaks(facts, machine, dtype, generous_max_clock_hz(machine));
}

std::optional<double> peak_at_clock_seen(const DeviceFacts& facts, const Record& record,
                                         std::string_view dtype) {
  if (!facts.is_gpu()) {
    const double clock_hz = 1e6 * record.machine.measured_clock_mhz.value_or(0);
    return cpu_device_peaks(facts, record.machine, dtype, clock_hz).flops_per_s;
  }
  if (!record.device_after || !record.device_after->clock_mhz) return std::nullopt;
  return gpu_flops_per_s(gpu_limits(facts, 1e6 * *record.device_after->clock_mhz), dtype);
}

}  // namespace ridgeline

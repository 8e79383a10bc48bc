// The fields of a record, struct by struct, for both the JSON writer and the reader.
#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>

#include "measure/record.h"

namespace ridgeline::record_fields {

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// fields() calls `f` with the JSON key of each field and a reference to it.

void fields(auto& f, Is<Statistics> auto& s) {
  f("count", s.count);
  f("median_ms", s.median_ms);
  f("median_low_ms", s.median_low_ms);
  f("median_high_ms", s.median_high_ms);
  f("median_coverage", s.median_coverage);
  f("mean_ms", s.mean_ms);
  f("std_ms", s.std_ms);
  f("min_ms", s.min_ms);
  f("max_ms", s.max_ms);
  f("p95_ms", s.p95_ms);
  f("p99_ms", s.p99_ms);
  f("iqr_ms", s.iqr_ms);
}

void fields(auto& f, Is<Series> auto& s) {
  f("statistics", s.statistics);
  f("samples_ms", s.samples_ms);
}

void fields(auto& f, Is<ProtocolFacts> auto& p) {
  f("warmups", p.warmups);
  f("iterations", p.iterations);
  f("stopping_rule", p.stopping_rule);
  f("elapsed_s", p.elapsed_s);
  f("first_run_s", p.first_run_s);
}

void fields(auto& f, Is<MemoryFacts> auto& m) {
  f("before_backward_bytes", m.before_backward);
  f("peak_bytes", m.peak);
  f("predicted_before_backward_bytes", m.predicted_before_backward);
  f("predicted_peak_bytes", m.predicted_peak);
  f("predicted_quadratic_bytes", m.predicted_quadratic);
  f("process_peak_growth_bytes", m.process_peak_growth);
  f("driver_peak_growth_bytes", m.driver_peak_growth);
}

void fields(auto& f, Is<TensorError> auto& t) {
  f("max_error", t.max_error);
  f("tolerance", t.tolerance);
}

void fields(auto& f, Is<Verification> auto& v) {
  f("checked", v.checked);
  f("what", v.what);
  f("oracle", v.oracle);
  f("tensors", v.tensors);
}

void fields(auto& f, Is<PhaseCost> auto& c) {
  f("flops", c.flops);
  f("macs", c.macs);
  f("bytes", c.bytes);
}

void fields(auto& f, Is<CostFacts> auto& c) {
  f("forward", c.forward);
  f("backward", c.backward);
  f("convention", c.convention);
}

void fields(auto& f, Is<Cache> auto& c) {
  f("level", c.level);
  f("type", c.type);
  f("size_bytes", c.size);
}

void fields(auto& f, Is<GpuFacts> auto& g) {
  f("model", g.model);
  f("arch", g.arch);
  f("multiprocessors", g.multiprocessors);
  f("l2_bytes", g.l2);
  f("max_clock_mhz", g.max_clock_mhz);
  f("software", g.software);
}

void fields(auto& f, Is<DeviceState> auto& s) {
  f("clock_mhz", s.clock_mhz);
  f("memory_clock_mhz", s.memory_clock_mhz);
  f("clocks_locked", s.clocks_locked);
  f("power_w", s.power_w);
  f("temperature_c", s.temperature_c);
  f("throttle_reasons", s.throttle_reasons);
}

void fields(auto& f, Is<Disturbance> auto& d) {
  f("window_s", d.window_s);
  f("processors", d.processors);
  f("other_cores", d.other_cores);
  f("stolen_cores", d.stolen_cores);
}

void fields(auto& f, Is<ProcessorSpeed> auto& s) {
  f("threads", s.threads);
  f("alone_gflops", s.alone_gflops);
  f("together_gflops", s.together_gflops);
  f("memory_gb_per_s", s.memory_gb_per_s);
}

void fields(auto& f, Is<MachineFacts> auto& m) {
  f("fingerprint", m.fingerprint);
  f("cpu_model", m.cpu_model);
  f("logical_cores", m.logical_cores);
  f("cpu_quota_cores", m.cpu_quota_cores);
  f("isa", m.isa);
  f("caches", m.caches);
  f("memory_total_bytes", m.memory_total);
  f("memory_available_bytes", m.memory_available);
  f("kernel", m.kernel);
  f("os", m.os);
  f("max_clock_mhz", m.max_clock_mhz);
  f("max_clock_source", m.max_clock_source);
  f("measured_clock_mhz", m.measured_clock_mhz);
  f("governor", m.governor);
  f("load_average", m.load_average);
  f("gpu", m.gpu);
}

void fields(auto& f, Is<BuildFacts> auto& b) {
  f("version", b.version);
  f("compiler", b.compiler);
  f("build_type", b.build_type);
  f("flags", b.flags);
  f("git_commit", b.git_commit);
}

void fields(auto& f, Is<Record> auto& r) {
  f.required("study", r.study);
  f.required("time", r.time);
  f.required("implementation", r.implementation);
  f.required("device", r.device);
  f.required("workload", r.workload);
  f.required("status", r.status);
  f("settings", r.settings);
  f("error", r.error);
  f("series", r.series);
  f("protocol", r.protocol);
  f("memory", r.memory);
  f("verification", r.verification);
  f("cost", r.cost);
  f("metrics", r.metrics);
  f("device_before", r.device_before);
  f("device_after", r.device_after);
  f("speed_before", r.speed_before);
  f("speed_after", r.speed_after);
  f("disturbance", r.disturbance);
  f("run", r.run);
  f("machine", r.machine);
  f("build", r.build);
  f("command", r.command);
}

inline std::string_view enum_name(Status status) {
  return status_name(status);
}
inline std::string_view enum_name(StoppingRule rule) {
  return stopping_rule_name(rule);
}
inline void parse_enum(std::string_view name, std::optional<Status>& out) {
  out = parse_status(name);
}
inline void parse_enum(std::string_view name, std::optional<StoppingRule>& out) {
  out = parse_stopping_rule(name);
}

}  // namespace ridgeline::record_fields

// The fields of a record, struct by struct, for both the JSON writer and the reader.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "measure/record.h"

namespace ridgeline::record_fields {

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// The JSON key of a member: its name, and the unit of those in bytes.
template <class T>
std::string key_of(std::string_view name, const T&) {
  constexpr bool kIsBytes = std::same_as<T, Bytes> || std::same_as<T, std::optional<Bytes>>;
  return std::string(name) + (kIsBytes && name != "bytes" ? "_bytes" : "");
}

// Defines fields(f, s), which calls `f` with the JSON key of each of these members of `s` and a
// reference to it. Every level of RIDGELINE_SCAN_... triples how many members there may be.
#define RIDGELINE_FIELDS(Type, ...)                 \
  void fields(auto& f, Is<Type> auto& s) {          \
    RIDGELINE_SCAN_27(RIDGELINE_FIELD(__VA_ARGS__)) \
  }
#define RIDGELINE_FIELD(member, ...)      \
  f(key_of(#member, s.member), s.member); \
  __VA_OPT__(RIDGELINE_FIELD_AGAIN RIDGELINE_NONE(__VA_ARGS__))
#define RIDGELINE_FIELD_AGAIN() RIDGELINE_FIELD
#define RIDGELINE_NONE ()
#define RIDGELINE_SCAN_27(...) RIDGELINE_SCAN_9(RIDGELINE_SCAN_9(RIDGELINE_SCAN_9(__VA_ARGS__)))
#define RIDGELINE_SCAN_9(...) RIDGELINE_SCAN_3(RIDGELINE_SCAN_3(RIDGELINE_SCAN_3(__VA_ARGS__)))
#define RIDGELINE_SCAN_3(...) RIDGELINE_SCAN(RIDGELINE_SCAN(RIDGELINE_SCAN(__VA_ARGS__)))
#define RIDGELINE_SCAN(...) __VA_ARGS__

RIDGELINE_FIELDS(Statistics, count, median_ms, median_low_ms, median_high_ms, median_coverage,
                 mean_ms, std_ms, min_ms, max_ms, p95_ms, p99_ms, iqr_ms)
RIDGELINE_FIELDS(Series, statistics, samples_ms)
RIDGELINE_FIELDS(ProtocolFacts, warmups, iterations, stopping_rule, elapsed_s, first_run_s)
RIDGELINE_FIELDS(MemoryFacts, before_backward, peak, predicted_before_backward, predicted_peak,
                 predicted_quadratic, process_peak_growth, driver_peak_growth)
RIDGELINE_FIELDS(TensorError, max_error, tolerance)
RIDGELINE_FIELDS(Verification, checked, what, oracle, tensors)
RIDGELINE_FIELDS(PhaseCost, flops, macs, bytes)
RIDGELINE_FIELDS(CostFacts, forward, backward, convention)
RIDGELINE_FIELDS(Cache, level, type, size)
RIDGELINE_FIELDS(GpuFacts, model, arch, multiprocessors, l2, max_clock_mhz, software)
RIDGELINE_FIELDS(DeviceState, clock_mhz, memory_clock_mhz, clocks_locked, power_w, temperature_c,
                 throttle_reasons)
RIDGELINE_FIELDS(Disturbance, window_s, processors, other_cores, stolen_cores)
RIDGELINE_FIELDS(ProcessorSpeed, threads, alone_gflops, together_gflops, memory_gb_per_s)
RIDGELINE_FIELDS(MachineFacts, fingerprint, cpu_model, logical_cores, cpu_quota_cores, isa, caches,
                 memory_total, memory_available, kernel, os, max_clock_mhz, max_clock_source,
                 measured_clock_mhz, governor, load_average, gpu)
RIDGELINE_FIELDS(BuildFacts, version, compiler, build_type, flags, git_commit)
RIDGELINE_FIELDS(Record, study, time, implementation, device, workload, status, settings, error,
                 series, protocol, memory, verification, cost, metrics, device_before, device_after,
                 speed_before, speed_after, disturbance, run, machine, build, command)

inline std::string_view enum_name(Status status) {
  return status_name(status);
}
inline std::string_view enum_name(StoppingRule rule) {
  return kStoppingRules[rule];
}
inline void parse_enum(std::string_view name, std::optional<Status>& out) {
  out = parse_status(name);
}
inline void parse_enum(std::string_view name, std::optional<StoppingRule>& out) {
  out = kStoppingRules.find(name);
}

}  // namespace ridgeline::record_fields

#include "measure/speed_of_light.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridgeline {
namespace {

struct FlopsPerCycle {
  std::string_view isa;
  std::string_view dtype;
  double flops;
};

// Per core: two vector units, a fused multiply-add counted as two. Half-precision storage computes
// in fp32 unless the instruction set has arithmetic of its own (avx512_bf16, avx512_fp16, AMX
// tiles).
constexpr FlopsPerCycle kFlopsPerCycle[] = {
    {"portable", "fp64", 8},      {"portable", "fp32", 16},     {"portable", "tf32", 16},
    {"portable", "bf16", 16},     {"portable", "fp16", 16},     {"avx2", "fp64", 16},
    {"avx2", "fp32", 32},         {"avx2", "tf32", 32},         {"avx2", "bf16", 32},
    {"avx2", "fp16", 32},         {"avx512", "fp64", 32},       {"avx512", "fp32", 64},
    {"avx512", "tf32", 64},       {"avx512", "bf16", 128},      {"avx512", "fp16", 128},
    {"avx512_bf16", "fp64", 32},  {"avx512_bf16", "fp32", 64},  {"avx512_bf16", "tf32", 64},
    {"avx512_bf16", "bf16", 128}, {"avx512_bf16", "fp16", 128}, {"amx", "fp64", 32},
    {"amx", "fp32", 64},          {"amx", "tf32", 64},          {"amx", "bf16", 2048},
    {"amx", "fp16", 128},
};

std::optional<std::string> exceeds(std::optional<double> rate, std::optional<double> peak,
                                   std::string_view unit, const std::string& derivation) {
  if (!rate) return std::nullopt;
  if (!std::isfinite(*rate) || *rate < 0)
    return fmt::format("a rate of {} {}: the time measured cannot be right", *rate, unit);
  if (!peak || *rate <= *peak) return std::nullopt;
  return fmt::format("{:.4g} G{} is faster than the hardware's peak of {:.4g} G{} ({})",
                     *rate / 1e9, unit, *peak / 1e9, unit, derivation);
}

}  // namespace

std::optional<std::string> faster_than_light(const Achieved& achieved, const Peaks& peaks) {
  if (auto reason = exceeds(achieved.flops_per_s, peaks.flops_per_s, "FLOP/s", peaks.derivation))
    return reason;
  return exceeds(achieved.bytes_per_s, peaks.bytes_per_s, "B/s", peaks.derivation);
}

Peaks cpu_peaks(const CpuPeakInputs& inputs) {
  // Older records say avx512 for kernels that used AMX.
  const bool amx = inputs.isa == "avx512" && inputs.dtype == "bf16" &&
                   std::find(inputs.features.begin(), inputs.features.end(), "amx_bf16") !=
                       inputs.features.end();
  const std::string_view isa = amx ? "amx" : inputs.isa;
  for (const FlopsPerCycle& row : kFlopsPerCycle) {
    if (row.isa != isa || row.dtype != inputs.dtype || inputs.max_clock_hz <= 0) continue;
    const double flops_per_s = inputs.threads * inputs.max_clock_hz * row.flops;
    return {flops_per_s, std::nullopt,
            fmt::format("{} thread{} x {:.2f} GHz x {} FLOPs per cycle of {} in {}", inputs.threads,
                        inputs.threads == 1 ? "" : "s", inputs.max_clock_hz / 1e9, row.flops, isa,
                        inputs.dtype)};
  }
  return {std::nullopt, std::nullopt,
          fmt::format("no peak is known for {} in {}", inputs.isa, inputs.dtype)};
}

Peaks gpu_peaks(const GpuLimits& limits, std::string_view dtype) {
  Peaks peaks{.flops_per_s = gpu_flops_per_s(limits, dtype)};
  if (peaks.flops_per_s)
    peaks.derivation =
        fmt::format("{} multiprocessors x {:.2f} GHz of compute capability {}.{} in {}",
                    limits.multiprocessors, limits.clock_hz / 1e9, limits.compute_capability / 10,
                    limits.compute_capability % 10, dtype);
  if (const GpuSpec* spec = find_gpu_spec(limits.model)) {
    const double listed = 1e12 * reachable_tflops(*spec, dtype);
    if (listed > peaks.flops_per_s.value_or(0)) {
      peaks.flops_per_s = listed;
      peaks.derivation = fmt::format("data sheet of {}, dense {}", spec->name, dtype);
    }
    peaks.bytes_per_s = 1.05e9 * spec->gigabytes_per_s;
  }
  if (!peaks.flops_per_s)
    peaks.derivation = fmt::format("no peak is known for {} in {}", limits.model, dtype);
  return peaks;
}

double generous_max_clock_hz(const MachineFacts& machine) {
  const double mhz =
      std::max(machine.max_clock_mhz.value_or(0), machine.measured_clock_mhz.value_or(0));
  return mhz * 1e6 * 1.10;
}

}  // namespace ridgeline

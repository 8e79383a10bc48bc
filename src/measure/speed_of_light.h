// The speed-of-light guard: a row faster than the hardware can be is a broken measurement, not a
// result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost/device_specs.h"
#include "measure/machine.h"

namespace ridgeline {

// Upper bounds, derived generously; empty: no bound is known. `derivation` says how they came
// about.
struct Peaks {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
  std::string derivation = {};
};

// Give bytes only for cold runs or traffic beyond the caches: a cache has no business with DRAM's
// peak.
struct Achieved {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
};

// The reason why the row is invalid, or nothing. Rates that are not finite are invalid too.
std::optional<std::string> faster_than_light(const Achieved& achieved, const Peaks& peaks);

struct CpuPeakInputs {
  std::string_view isa = {};    // of the kernels: "portable", "avx2", "avx512", "amx"
  std::string_view dtype = {};  // "fp64", "fp32", "tf32", "bf16", "fp16"
  int threads = 1;
  double max_clock_hz = 0;
  std::span<const std::string> features = {};  // of the processor: MachineFacts::isa
};

// threads x clock x FLOPs per cycle; no bound for an isa and dtype that are not in the table. Peaks
// of bf16 on a processor with AMX are those of its tiles.
Peaks cpu_peaks(const CpuPeakInputs& inputs);

// The higher of the data sheet's dense peak and the architecture's at the clock given, which should
// be the highest that the GPU can have; 5 % on top for memory, whose clock data sheets round.
Peaks gpu_peaks(const GpuLimits& limits, std::string_view dtype);

// The higher of the reported and the measured clock, and 10% on top for turbo that neither showed.
double generous_max_clock_hz(const MachineFacts& machine);

}  // namespace ridgeline

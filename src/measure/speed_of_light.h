// The speed-of-light check: a row faster than the hardware's peak is a broken measurement.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost/device_specs.h"
#include "measure/machine.h"

namespace ridgeline {

// Generous upper bounds; nullopt: no bound is known. `derivation` explains them.
struct Peaks {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
  std::string derivation = {};
};

// Set bytes only for cold runs or traffic beyond the caches: DRAM's peak does not bound a cache.
struct Achieved {
  std::optional<double> flops_per_s = {};
  std::optional<double> bytes_per_s = {};
};

// Returns why the row is invalid, or nullopt. Rates that are not finite are invalid too.
std::optional<std::string> faster_than_light(const Achieved& achieved, const Peaks& peaks);

struct CpuPeakInputs {
  std::string_view isa = {};    // of the kernels: "portable", "avx2", "avx512", "amx"
  std::string_view dtype = {};  // "fp64", "fp32", "tf32", "bf16", "fp16"
  int threads = 1;
  double max_clock_hz = 0;
  std::span<const std::string> features = {};  // of the processor: MachineFacts::isa
};

// threads x clock x FLOPs per cycle; no bound for an isa and dtype that are not in the table. The
// bf16 peak of a processor with AMX is that of its tiles.
Peaks cpu_peaks(const CpuPeakInputs& inputs);

// The higher of the data sheet's dense peak and the architecture's at the given clock, which should
// be the GPU's maximum. Bandwidth gets 5 % on top, as data sheets round memory clocks.
Peaks gpu_peaks(const GpuLimits& limits, std::string_view dtype);

// The higher of the reported and the measured clock, plus 10 % for turbo that neither showed.
double generous_max_clock_hz(const MachineFacts& machine);

}  // namespace ridgeline

// Clocks, power and temperature of a GPU, read through NVML where available. Read-only.
#pragma once

#include <optional>
#include <string>

#include "runtime/gpu_state.h"

namespace ridgeline {

// `ordinal` is CUDA's, after CUDA_VISIBLE_DEVICES. Empty: no driver, no NVML, no such GPU.
std::optional<GpuState> gpu_state(int ordinal);

// "580.65.06"; empty: unknown.
std::string nvidia_driver_version();

// Exposed for tests: "sw_power_cap hw_slowdown" for NVML's bits.
std::string clock_reasons_text(unsigned long long reasons);

}  // namespace ridgeline

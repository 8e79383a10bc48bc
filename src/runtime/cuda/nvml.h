// Clocks, power and temperature of a GPU, read through NVML where it is there. Only ever reads.
#pragma once

#include <optional>
#include <string>

#include "runtime/gpu_state.h"

namespace ridgeline {

// `ordinal` as CUDA counts, after CUDA_VISIBLE_DEVICES. Empty: no driver, no NVML, no such GPU.
std::optional<GpuState> gpu_state(int ordinal);

// "580.65.06"; empty: not known.
std::string nvidia_driver_version();

// Split out for tests: "sw_power_cap hw_slowdown" of the bits of NVML.
std::string clock_reasons_text(unsigned long long reasons);

}  // namespace ridgeline

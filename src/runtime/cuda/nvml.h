// Clocks, power and temperature of a GPU, read through NVML where it is there. Only ever reads.
#pragma once

#include <optional>
#include <string>

namespace ridgeline {

// What could not be read is empty.
struct GpuState {
  std::optional<double> sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz;
  std::optional<double> power_w, power_limit_w;
  std::optional<double> temperature_c;
  // True where the driver says that a setting holds the clocks. A range set by `nvidia-smi -lgc`
  // cannot be read back; one that leaves the clocks free to reach it looks like false.
  std::optional<bool> clocks_locked;
  std::string throttle_reasons;  // "sw_power_cap hw_slowdown"; "none"; empty: not known
};

// `ordinal` as CUDA counts, after CUDA_VISIBLE_DEVICES. Empty: no driver, no NVML, no such GPU.
std::optional<GpuState> gpu_state(int ordinal);

// "580.65.06"; empty: not known.
std::string nvidia_driver_version();

// Split out for tests: "sw_power_cap hw_slowdown" of the bits of NVML.
std::string clock_reasons_text(unsigned long long reasons);

}  // namespace ridgeline

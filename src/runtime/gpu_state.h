// The state of a GPU at one moment: clocks, power, temperature.
#pragma once

#include <optional>
#include <string>

namespace ridgeline {

// Fields that could not be read are empty.
struct GpuState {
  std::optional<double> sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz;
  std::optional<double> power_w, power_limit_w;
  std::optional<double> temperature_c;
  // True if the driver reports that a setting limits the clocks. A range set by `nvidia-smi -lgc`
  // cannot be read back; if it does not limit the current clocks, this is false.
  std::optional<bool> clocks_locked;
  std::string throttle_reasons;  // "sw_power_cap hw_slowdown"; "none"; empty: unknown
};

}  // namespace ridgeline

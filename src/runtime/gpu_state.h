// What a GPU is doing at a moment: clocks, power, temperature.
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

}  // namespace ridgeline

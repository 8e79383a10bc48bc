// The part of NVML that Ridgeline reads, declared here so that building needs no toolkit. Nothing
// that changes a setting is declared. tests/runtime/cuda_headers_test.cc holds it against the real
// nvml.h where there is one.
#pragma once

#include <cstddef>

namespace ridgeline::nvml {

using Result = int;  // 0: success
using Device = struct DeviceTag*;

inline constexpr Result kSuccess = 0;

enum ClockType : int { kClockSm = 1, kClockMemory = 2 };
enum TemperatureSensor : int { kTemperatureGpu = 0 };

inline constexpr unsigned kDriverVersionBytes = 80;

// Why the clock is not higher. name, bit
#define RIDGELINE_NVML_CLOCK_REASONS(X) \
  X(idle, 0x1)                          \
  X(applications_clocks_setting, 0x2)   \
  X(sw_power_cap, 0x4)                  \
  X(hw_slowdown, 0x8)                   \
  X(sync_boost, 0x10)                   \
  X(sw_thermal_slowdown, 0x20)          \
  X(hw_thermal_slowdown, 0x40)          \
  X(hw_power_brake_slowdown, 0x80)      \
  X(display_clock_setting, 0x100)

// name in the library, result, arguments; each may be missing
#define RIDGELINE_NVML_FUNCTIONS(X)                                                                \
  X(nvmlInit_v2, Result, ())                                                                       \
  X(nvmlSystemGetDriverVersion, Result, (char* version, unsigned length))                          \
  X(nvmlDeviceGetHandleByPciBusId_v2, Result, (const char* id, Device* device))                    \
  X(nvmlDeviceGetClockInfo, Result, (Device device, ClockType type, unsigned* mhz))                \
  X(nvmlDeviceGetMaxClockInfo, Result, (Device device, ClockType type, unsigned* mhz))             \
  X(nvmlDeviceGetApplicationsClock, Result, (Device device, ClockType type, unsigned* mhz))        \
  X(nvmlDeviceGetDefaultApplicationsClock, Result, (Device device, ClockType type, unsigned* mhz)) \
  X(nvmlDeviceGetPowerUsage, Result, (Device device, unsigned* milliwatts))                        \
  X(nvmlDeviceGetEnforcedPowerLimit, Result, (Device device, unsigned* milliwatts))                \
  X(nvmlDeviceGetTemperature, Result,                                                              \
    (Device device, TemperatureSensor sensor, unsigned* celsius))                                  \
  X(nvmlDeviceGetCurrentClocksEventReasons, Result, (Device device, unsigned long long* reasons))  \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, Result, (Device device, unsigned long long* reasons))

struct Api {
#define RIDGELINE_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  RIDGELINE_NVML_FUNCTIONS(RIDGELINE_MEMBER)
#undef RIDGELINE_MEMBER
};

}  // namespace ridgeline::nvml

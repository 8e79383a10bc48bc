// The part of NVML that Ridgeline uses, declared here so that building needs no toolkit. No
// function that changes a setting is declared. tests/runtime/cuda_headers_test.cc checks it against
// the real nvml.h where available.
#pragma once

#include <cstddef>
#include <optional>

#include "jit/cuda_libraries.h"

namespace ridgeline::nvml {

using Result = int;  // 0: success
using Device = struct DeviceTag*;

inline constexpr Result kSuccess = 0;

enum ClockType : int { kClockSm = 1, kClockMemory = 2 };
enum TemperatureSensor : int { kTemperatureGpu = 0 };

inline constexpr unsigned kDriverVersionBytes = 80;

// Share of the last sample period, which is a sixth of a second to a second, in percent.
struct UtilizationRates {
  unsigned gpu = 0;     // with at least one kernel running
  unsigned memory = 0;  // with memory being read or written
};

// Counters on Hopper and later: metrics between two samples.
using GpmSample = struct GpmSampleTag*;
struct GpmSupport {
  unsigned version = 1;
  unsigned is_supported = 0;
};
enum GpmMetricId : unsigned { kGpmSmUtil = 2, kGpmAnyTensorUtil = 5, kGpmDramUtil = 10 };
struct GpmMetric {
  unsigned id = 0;
  Result result = 0;
  double value = 0;
  const char *short_name = nullptr, *long_name = nullptr, *unit = nullptr;
};
// A library reads and writes the first `count` metrics; the capacity differs between versions and
// is always below this.
inline constexpr size_t kGpmRoom = 512;
struct GpmMetricsGet {
  unsigned version = 1;
  unsigned count = 0;
  GpmSample first = nullptr, second = nullptr;
  GpmMetric metrics[kGpmRoom];
};

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
  X(nvmlErrorString, const char*, (Result result))                                                 \
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
  X(nvmlDeviceGetCurrentClocksThrottleReasons, Result,                                             \
    (Device device, unsigned long long* reasons))                                                  \
  X(nvmlDeviceGetUtilizationRates, Result, (Device device, UtilizationRates * rates))              \
  X(nvmlDeviceGetMemoryBusWidth, Result, (Device device, unsigned* bits))                          \
  X(nvmlGpmQueryDeviceSupport, Result, (Device device, GpmSupport * support))                      \
  X(nvmlGpmSampleAlloc, Result, (GpmSample * sample))                                              \
  X(nvmlGpmSampleFree, Result, (GpmSample sample))                                                 \
  X(nvmlGpmSampleGet, Result, (Device device, GpmSample sample))                                   \
  X(nvmlGpmMetricsGet, Result, (GpmMetricsGet * get))

RIDGELINE_API(Api, RIDGELINE_NVML_FUNCTIONS);

// Initialised on first use; all null where NVML is missing or fails to initialise.
const Api& api();
// `ordinal` is CUDA's. Empty: no driver, no NVML, no such GPU.
std::optional<Device> device_of(int ordinal);

}  // namespace ridgeline::nvml

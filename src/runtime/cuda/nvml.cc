#include "runtime/cuda/nvml.h"

#include <fmt/format.h>

#include "base/error.h"
#include "jit/cuda_libraries.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/cuda/nvml_api.h"

namespace ridgeline {
namespace {

using nvml::Api;
using nvml::api;
using nvml::ClockType;
using nvml::Device;
using nvml::device_of;

Api load() {
  Api api;
  load_functions(cuda_library("nvidia-ml"), api);  // of which some may be missing
  return api.nvmlInit_v2 && api.nvmlInit_v2() == nvml::kSuccess ? api : Api{};
}

// Calls a function of NVML; empty if it is missing or fails.
template <class Value, class Function, class... Arguments>
std::optional<Value> ask(Function function, Arguments... arguments) {
  Value value = {};
  if (!function || function(arguments..., &value) != nvml::kSuccess) return std::nullopt;
  return value;
}

template <class Function, class... Arguments>
std::optional<double> number(Function function, double unit, Arguments... arguments) {
  const auto value = ask<unsigned>(function, arguments...);
  if (!value) return std::nullopt;
  return *value * unit;
}

std::optional<unsigned long long> clock_reasons(Device device) {
  if (const auto reasons =
          ask<unsigned long long>(api().nvmlDeviceGetCurrentClocksEventReasons, device))
    return reasons;
  return ask<unsigned long long>(api().nvmlDeviceGetCurrentClocksThrottleReasons, device);
}

constexpr unsigned long long kHeldBySetting = 0x2;

std::optional<bool> clocks_locked(Device device, std::optional<unsigned long long> reasons) {
  const auto now = ask<unsigned>(api().nvmlDeviceGetApplicationsClock, device, nvml::kClockSm);
  const auto usual =
      ask<unsigned>(api().nvmlDeviceGetDefaultApplicationsClock, device, nvml::kClockSm);
  if (!reasons && !(now && usual)) return std::nullopt;
  return (reasons && (*reasons & kHeldBySetting)) || (now && usual && *now != *usual);
}

}  // namespace

// Initialised once and never shut down, as other code in the process may use NVML too.
const Api& nvml::api() {
  static const Api instance = load();
  return instance;
}

// Matches GPUs by PCI bus id, as CUDA and NVML number them differently.
std::optional<Device> nvml::device_of(int ordinal) {
  if (!api().nvmlDeviceGetHandleByPciBusId_v2) return std::nullopt;
  try {
    const cuda::Driver& driver = cuda::driver();
    cuda::DeviceHandle handle = 0;
    char id[32] = {};
    Device device = nullptr;
    if (driver.cuDeviceGet(&handle, ordinal) == cuda::kSuccess &&
        driver.cuDeviceGetPCIBusId(id, sizeof id, handle) == cuda::kSuccess &&
        api().nvmlDeviceGetHandleByPciBusId_v2(id, &device) == nvml::kSuccess)
      return device;
  } catch (const Error&) {  // no driver
  }
  return std::nullopt;
}

std::string clock_reasons_text(unsigned long long reasons) {
  std::string text;
  const auto add = [&](const std::string& name) { text += (text.empty() ? "" : " ") + name; };
#define RIDGELINE_REASON(name, bit) \
  if (reasons & (bit)) add(#name);  \
  reasons &= ~static_cast<unsigned long long>(bit);
  RIDGELINE_NVML_CLOCK_REASONS(RIDGELINE_REASON)
#undef RIDGELINE_REASON
  if (reasons) add(fmt::format("0x{:x}", reasons));
  return text.empty() ? "none" : text;
}

std::optional<GpuState> gpu_state(int ordinal) {
  const std::optional<Device> device = device_of(ordinal);
  if (!device) return std::nullopt;
  const auto reasons = clock_reasons(*device);
  return GpuState{
      .sm_clock_mhz = number(api().nvmlDeviceGetClockInfo, 1, *device, nvml::kClockSm),
      .max_sm_clock_mhz = number(api().nvmlDeviceGetMaxClockInfo, 1, *device, nvml::kClockSm),
      .memory_clock_mhz = number(api().nvmlDeviceGetClockInfo, 1, *device, nvml::kClockMemory),
      .power_w = number(api().nvmlDeviceGetPowerUsage, 1e-3, *device),
      .power_limit_w = number(api().nvmlDeviceGetEnforcedPowerLimit, 1e-3, *device),
      .temperature_c = number(api().nvmlDeviceGetTemperature, 1, *device, nvml::kTemperatureGpu),
      .clocks_locked = clocks_locked(*device, reasons),
      .throttle_reasons = reasons ? clock_reasons_text(*reasons) : ""};
}

std::string nvidia_driver_version() {
  char version[nvml::kDriverVersionBytes] = {};
  if (!api().nvmlSystemGetDriverVersion ||
      api().nvmlSystemGetDriverVersion(version, sizeof version) != nvml::kSuccess)
    return {};
  return version;
}

}  // namespace ridgeline

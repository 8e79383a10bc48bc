// A library that stands in for NVML: one GPU whose counters say what a test expects.
//
// FAKE_NVML=no_gpm: the GPU has no counters; FAKE_NVML=forbidden: reading them is not allowed;
// FAKE_NVML=nothing: neither counters nor utilization.gpu.
#include <cstdlib>
#include <cstring>

#include "runtime/cuda/nvml_api.h"

using namespace ridgeline::nvml;

namespace {

constexpr Result kNotSupported = 3, kNoPermission = 4;

bool is_told(const char* word) {
  const char* told = std::getenv("FAKE_NVML");
  return told != nullptr && std::strcmp(told, word) == 0;
}

}  // namespace

extern "C" {

Result nvmlInit_v2() {
  return kSuccess;
}
const char* nvmlErrorString(Result result) {
  return result == kNoPermission ? "Insufficient Permissions" : "Not Supported";
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char*, Device* device) {
  static int any;
  *device = reinterpret_cast<Device>(&any);
  return kSuccess;
}
Result nvmlDeviceGetClockInfo(Device, ClockType type, unsigned* mhz) {
  *mhz = type == kClockSm ? 1500 : 1000;
  return kSuccess;
}
Result nvmlDeviceGetMemoryBusWidth(Device, unsigned* bits) {
  *bits = 4096;
  return kSuccess;
}
Result nvmlDeviceGetUtilizationRates(Device, UtilizationRates* rates) {
  *rates = {.gpu = 98, .memory = 40};
  return is_told("nothing") ? kNotSupported : kSuccess;
}
Result nvmlGpmQueryDeviceSupport(Device, GpmSupport* support) {
  support->is_supported = is_told("no_gpm") || is_told("nothing") ? 0 : 1;
  return kSuccess;
}
Result nvmlGpmSampleAlloc(GpmSample* sample) {
  *sample = reinterpret_cast<GpmSample>(std::malloc(1));
  return kSuccess;
}
Result nvmlGpmSampleFree(GpmSample sample) {
  std::free(sample);
  return kSuccess;
}
Result nvmlGpmSampleGet(Device, GpmSample) {
  return is_told("forbidden") ? kNoPermission : kSuccess;
}
Result nvmlGpmMetricsGet(GpmMetricsGet* get) {
  for (unsigned i = 0; i < get->count; ++i) {
    GpmMetric& metric = get->metrics[i];
    metric.value = metric.id == kGpmSmUtil ? 80 : metric.id == kGpmAnyTensorUtil ? 25 : 50;
  }
  return kSuccess;
}

}  // extern "C"

// CUPTI's sampling of counters, as fake_cupti.cc stands in for it: a sample every 100 us of a GPU
// that works for the first half of a pass, while the calls come in the order that CUPTI asks for.
//
// FAKE_CUPTI=no_counters: the driver refuses them; FAKE_CUPTI=two_passes: they do not fit the
// hardware; FAKE_CUPTI=idle: counters stay at zero; FAKE_CUPTI=breaks: decoding fails from the
// third pass on. Several words may stand together.
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/cuda/pm_sampling_api.h"

using namespace ridgeline::cupti;

namespace {

constexpr Result kInvalidParameter = 1, kInvalidOperation = 7;
constexpr uint64_t kFirstNs = 5'000'000, kSampleNs = 100'000;
constexpr size_t kSamples = 101;  // the first one is not counted

bool is_told(const char* word) {
  const char* told = std::getenv("FAKE_CUPTI");
  return told != nullptr && std::strstr(told, word) != nullptr;
}

enum class Step { none, initialized, configured, enabled, set, ready, started, stopped, decoded };
Step step = Step::none;
int passes = 0;
int any;

// A call that comes too early, or a struct whose size is not what it should be, is refused.
template <class P>
Result expect(const P* params, Step at_least, Step next) {
  if (params->struct_size != kParamsBytes<P> || params->priv != nullptr) return kInvalidParameter;
  if (step < at_least) return kInvalidOperation;
  step = next;
  return kSuccess;
}

}  // namespace

extern "C" {

Result cuptiProfilerInitialize(ProfilerInitializeParams* params) {
  return expect(params, Step::none, Step::initialized);
}
Result cuptiDeviceGetChipName(GetChipNameParams* params) {
  params->chip = "GH100";
  return expect(params, Step::initialized, step);
}
Result cuptiPmSamplingGetCounterAvailability(GetCounterAvailabilityParams* params) {
  if (is_told("no_counters")) return kInsufficientPrivileges;
  params->bytes = 16;
  return expect(params, Step::initialized, step);
}
Result cuptiProfilerHostInitialize(HostInitializeParams* params) {
  params->host = reinterpret_cast<HostObject>(&any);
  return params->type == kPmSampling && std::string(params->chip) == "GH100"
             ? expect(params, Step::none, step)
             : kInvalidParameter;
}
Result cuptiProfilerHostDeinitialize(HostDeinitializeParams*) {
  return kSuccess;
}
Result cuptiProfilerHostConfigAddMetrics(HostConfigAddMetricsParams* params) {
  return expect(params, Step::none, step);
}
Result cuptiProfilerHostGetConfigImageSize(HostGetConfigImageSizeParams* params) {
  params->bytes = 32;
  return expect(params, Step::none, step);
}
Result cuptiProfilerHostGetConfigImage(HostGetConfigImageParams* params) {
  return expect(params, Step::none, step == Step::initialized ? Step::configured : step);
}
Result cuptiProfilerHostGetNumOfPasses(HostGetNumOfPassesParams* params) {
  params->passes = is_told("two_passes") ? 2 : 1;
  return expect(params, Step::none, step);
}
Result cuptiPmSamplingEnable(SamplingEnableParams* params) {
  params->object = reinterpret_cast<SamplingObject>(&any);
  return step > Step::configured ? kInvalidOperation  // one session at a time
                                 : expect(params, Step::configured, Step::enabled);
}
Result cuptiPmSamplingDisable(SamplingObjectParams* params) {
  return expect(params, Step::enabled, Step::configured);
}
Result cuptiPmSamplingSetConfig(SamplingSetConfigParams* params) {
  return params->interval > 0 ? expect(params, Step::enabled, Step::set) : kInvalidParameter;
}
Result cuptiPmSamplingGetCounterDataSize(SamplingGetCounterDataSizeParams* params) {
  params->bytes = 64;
  return params->most_samples > kSamples ? expect(params, Step::set, step) : kInvalidParameter;
}
Result cuptiPmSamplingCounterDataImageInitialize(SamplingImageInitializeParams* params) {
  return expect(params, Step::set, Step::ready);
}
Result cuptiPmSamplingStart(SamplingObjectParams* params) {
  return expect(params, Step::ready, Step::started);
}
Result cuptiPmSamplingStop(SamplingObjectParams* params) {
  return expect(params, Step::started, Step::stopped);
}
Result cuptiPmSamplingDecodeData(SamplingDecodeParams* params) {
  if (is_told("breaks") && ++passes > 2) return kInvalidOperation;
  return expect(params, Step::stopped, Step::decoded);
}
Result cuptiPmSamplingGetCounterDataInfo(SamplingGetInfoParams* params) {
  params->completed = kSamples + 1;
  return expect(params, Step::decoded, step);
}
// The last one covers no time, as CUPTI's do after a stop.
Result cuptiPmSamplingCounterDataGetSampleInfo(SamplingGetSampleParams* params) {
  params->begin = params->index == kSamples ? kFirstNs : kFirstNs + params->index * kSampleNs;
  params->end = params->index == kSamples ? kFirstNs : params->begin + kSampleNs;
  return expect(params, Step::decoded, step);
}
Result cuptiProfilerHostEvaluateToGpuValues(HostEvaluateParams* params) {
  const bool works = params->index <= kSamples / 2 && !is_told("idle");
  for (size_t i = 0; i < params->count; ++i) {
    const std::string name = params->names[i];
    double value = name.starts_with("sm__cycles_active") ? 90 : 60;
    if (name.starts_with("dram__")) value = 1e5;  // bytes of a sample
    if (!works) value = 0;
    if (name.starts_with("sm__cycles_elapsed")) value = 170'000;
    params->values[i] = value;
  }
  return expect(params, Step::decoded, step);
}

}  // extern "C"

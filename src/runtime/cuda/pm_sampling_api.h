// The part of CUPTI that samples a GPU's counters while work runs, declared here so that building
// needs no toolkit. tests/profile/cupti_headers_test.cc checks it against the real headers where
// available.
//
// Every function takes one struct that begins with its size, which tells the library the fields
// that its caller knows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jit/cuda_libraries.h"
#include "runtime/cuda/cupti_api.h"

namespace ridgeline::cupti {

using HostObject = struct HostObjectTag*;
using SamplingObject = struct SamplingObjectTag*;

enum ProfilerType : int { kPmSampling = 1 };
// Intervals in cycles of the system clock, or in nanoseconds, which GA100 does not support.
enum TriggerMode : int { kSysclkInterval = 0, kTimeInterval = 1 };
enum AppendMode : int { kKeepLatest = 1 };

struct Params {
  size_t struct_size = 0;
  void* priv = nullptr;
};

struct ProfilerInitializeParams : Params {};
struct GetChipNameParams : Params {
  size_t device = 0;
  const char* chip = nullptr;
};
struct GetCounterAvailabilityParams : Params {
  size_t device = 0;
  size_t bytes = 0;
  uint8_t* image = nullptr;
};
struct HostInitializeParams : Params {
  ProfilerType type = kPmSampling;
  const char* chip = nullptr;
  const uint8_t* availability = nullptr;
  HostObject host = nullptr;
};
struct HostDeinitializeParams : Params {
  HostObject host = nullptr;
};
struct HostConfigAddMetricsParams : Params {
  HostObject host = nullptr;
  const char** names = nullptr;
  size_t count = 0;
};
struct HostGetConfigImageSizeParams : Params {
  HostObject host = nullptr;
  size_t bytes = 0;
};
struct HostGetConfigImageParams : Params {
  HostObject host = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
};
struct HostGetNumOfPassesParams : Params {
  size_t bytes = 0;
  uint8_t* image = nullptr;
  size_t passes = 0;
};
struct HostEvaluateParams : Params {
  HostObject host = nullptr;
  const uint8_t* image = nullptr;
  size_t bytes = 0;
  size_t index = 0;
  const char** names = nullptr;
  size_t count = 0;
  double* values = nullptr;
};
struct SamplingEnableParams : Params {
  size_t device = 0;
  SamplingObject object = nullptr;
};
struct SamplingObjectParams : Params {  // of start, stop and disable
  SamplingObject object = nullptr;
};
struct SamplingSetConfigParams : Params {
  SamplingObject object = nullptr;
  size_t config_bytes = 0;
  const uint8_t* config = nullptr;
  size_t buffer_bytes = 0;
  uint64_t interval = 0;
  TriggerMode trigger = kTimeInterval;
  AppendMode append = kKeepLatest;
};
struct SamplingGetCounterDataSizeParams : Params {
  SamplingObject object = nullptr;
  const char** names = nullptr;
  size_t count = 0;
  uint32_t most_samples = 0;
  size_t bytes = 0;
};
struct SamplingImageInitializeParams : Params {
  SamplingObject object = nullptr;
  size_t bytes = 0;
  uint8_t* image = nullptr;
};
struct SamplingDecodeParams : Params {
  SamplingObject object = nullptr;
  uint8_t* image = nullptr;
  size_t bytes = 0;
  int stop_reason = 0;
  uint8_t overflow = 0;
};
struct SamplingGetInfoParams : Params {
  const uint8_t* image = nullptr;
  size_t bytes = 0;
  size_t total = 0, populated = 0, completed = 0;
};
struct SamplingGetSampleParams : Params {
  SamplingObject object = nullptr;
  const uint8_t* image = nullptr;
  size_t bytes = 0;
  size_t index = 0;
  uint64_t begin = 0, end = 0;
};

// The size of a struct as CUPTI counts it: up to the end of its last field, without padding.
template <class P>
inline constexpr size_t kParamsBytes = sizeof(P);
template <>
inline constexpr size_t kParamsBytes<SamplingDecodeParams> = sizeof(SamplingDecodeParams) -
                                                             alignof(SamplingDecodeParams) +
                                                             sizeof(int) + sizeof(uint8_t);

// name in the library, result, arguments
#define RIDGELINE_PM_SAMPLING_FUNCTIONS(X)                                               \
  X(cuptiGetResultString, Result, (Result result, const char** text))                    \
  X(cuptiProfilerInitialize, Result, (ProfilerInitializeParams*))                        \
  X(cuptiDeviceGetChipName, Result, (GetChipNameParams*))                                \
  X(cuptiProfilerHostInitialize, Result, (HostInitializeParams*))                        \
  X(cuptiProfilerHostDeinitialize, Result, (HostDeinitializeParams*))                    \
  X(cuptiProfilerHostConfigAddMetrics, Result, (HostConfigAddMetricsParams*))            \
  X(cuptiProfilerHostGetConfigImageSize, Result, (HostGetConfigImageSizeParams*))        \
  X(cuptiProfilerHostGetConfigImage, Result, (HostGetConfigImageParams*))                \
  X(cuptiProfilerHostGetNumOfPasses, Result, (HostGetNumOfPassesParams*))                \
  X(cuptiProfilerHostEvaluateToGpuValues, Result, (HostEvaluateParams*))                 \
  X(cuptiPmSamplingGetCounterAvailability, Result, (GetCounterAvailabilityParams*))      \
  X(cuptiPmSamplingEnable, Result, (SamplingEnableParams*))                              \
  X(cuptiPmSamplingDisable, Result, (SamplingObjectParams*))                             \
  X(cuptiPmSamplingSetConfig, Result, (SamplingSetConfigParams*))                        \
  X(cuptiPmSamplingGetCounterDataSize, Result, (SamplingGetCounterDataSizeParams*))      \
  X(cuptiPmSamplingCounterDataImageInitialize, Result, (SamplingImageInitializeParams*)) \
  X(cuptiPmSamplingStart, Result, (SamplingObjectParams*))                               \
  X(cuptiPmSamplingStop, Result, (SamplingObjectParams*))                                \
  X(cuptiPmSamplingDecodeData, Result, (SamplingDecodeParams*))                          \
  X(cuptiPmSamplingGetCounterDataInfo, Result, (SamplingGetInfoParams*))                 \
  X(cuptiPmSamplingCounterDataGetSampleInfo, Result, (SamplingGetSampleParams*))

RIDGELINE_API(SamplingApi, RIDGELINE_PM_SAMPLING_FUNCTIONS);

}  // namespace ridgeline::cupti

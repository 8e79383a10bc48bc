// Holds our declarations of CUPTI's sampling of counters against NVIDIA's own headers, where those
// are installed: values, sizes and offsets.
#include <gtest/gtest.h>

#include <cstddef>

#include "runtime/cuda/pm_sampling_api.h"

#if __has_include(<cupti_pmsampling.h>) && __has_include(<cupti_profiler_host.h>) && \
    __has_include(<cuda.h>)
#include <cuda.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

// Ours inherit the two fields that all begin with; compilers lay that out as one struct.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace ridgeline::cupti {
namespace {

#define RIDGELINE_SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs);
RIDGELINE_SAME(kPmSampling, CUPTI_PROFILER_TYPE_PM_SAMPLING)
RIDGELINE_SAME(kSysclkInterval, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL)
RIDGELINE_SAME(kTimeInterval, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL)
RIDGELINE_SAME(kKeepLatest, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST)

#define RIDGELINE_SIZE(ours, theirs) RIDGELINE_SAME(kParamsBytes<ours>, theirs##_STRUCT_SIZE)
#define RIDGELINE_AT(ours, our_field, theirs, their_field) \
  RIDGELINE_SAME(offsetof(ours, our_field), offsetof(::theirs, their_field))

RIDGELINE_SIZE(ProfilerInitializeParams, CUpti_Profiler_Initialize_Params)
RIDGELINE_SIZE(GetChipNameParams, CUpti_Device_GetChipName_Params)
RIDGELINE_SIZE(GetCounterAvailabilityParams, CUpti_PmSampling_GetCounterAvailability_Params)
RIDGELINE_SIZE(HostDeinitializeParams, CUpti_Profiler_Host_Deinitialize_Params)
RIDGELINE_SIZE(HostConfigAddMetricsParams, CUpti_Profiler_Host_ConfigAddMetrics_Params)
RIDGELINE_SIZE(HostGetConfigImageSizeParams, CUpti_Profiler_Host_GetConfigImageSize_Params)
RIDGELINE_SIZE(HostGetConfigImageParams, CUpti_Profiler_Host_GetConfigImage_Params)
RIDGELINE_SIZE(HostGetNumOfPassesParams, CUpti_Profiler_Host_GetNumOfPasses_Params)
RIDGELINE_SIZE(HostEvaluateParams, CUpti_Profiler_Host_EvaluateToGpuValues_Params)
RIDGELINE_SIZE(SamplingEnableParams, CUpti_PmSampling_Enable_Params)
RIDGELINE_SIZE(SamplingObjectParams, CUpti_PmSampling_Start_Params)
RIDGELINE_SIZE(SamplingObjectParams, CUpti_PmSampling_Stop_Params)
RIDGELINE_SIZE(SamplingObjectParams, CUpti_PmSampling_Disable_Params)
RIDGELINE_SIZE(SamplingSetConfigParams, CUpti_PmSampling_SetConfig_Params)
RIDGELINE_SIZE(SamplingGetCounterDataSizeParams, CUpti_PmSampling_GetCounterDataSize_Params)
RIDGELINE_SIZE(SamplingImageInitializeParams, CUpti_PmSampling_CounterDataImage_Initialize_Params)
RIDGELINE_SIZE(SamplingDecodeParams, CUpti_PmSampling_DecodeData_Params)
RIDGELINE_SIZE(SamplingGetInfoParams, CUpti_PmSampling_GetCounterDataInfo_Params)
RIDGELINE_SIZE(SamplingGetSampleParams, CUpti_PmSampling_CounterData_GetSampleInfo_Params)
// From 13.2 on there is one more field, which may be left out.
static_assert(kParamsBytes<HostInitializeParams> <=
              CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);

RIDGELINE_AT(GetChipNameParams, chip, CUpti_Device_GetChipName_Params, pChipName)
RIDGELINE_AT(GetCounterAvailabilityParams, bytes, CUpti_PmSampling_GetCounterAvailability_Params,
             counterAvailabilityImageSize)
RIDGELINE_AT(HostInitializeParams, type, CUpti_Profiler_Host_Initialize_Params, profilerType)
RIDGELINE_AT(HostInitializeParams, chip, CUpti_Profiler_Host_Initialize_Params, pChipName)
RIDGELINE_AT(HostInitializeParams, availability, CUpti_Profiler_Host_Initialize_Params,
             pCounterAvailabilityImage)
RIDGELINE_AT(HostInitializeParams, host, CUpti_Profiler_Host_Initialize_Params, pHostObject)
RIDGELINE_AT(HostConfigAddMetricsParams, names, CUpti_Profiler_Host_ConfigAddMetrics_Params,
             ppMetricNames)
RIDGELINE_AT(HostGetConfigImageParams, image, CUpti_Profiler_Host_GetConfigImage_Params,
             pConfigImage)
RIDGELINE_AT(HostGetNumOfPassesParams, passes, CUpti_Profiler_Host_GetNumOfPasses_Params,
             numOfPasses)
RIDGELINE_AT(HostEvaluateParams, index, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex)
RIDGELINE_AT(HostEvaluateParams, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
             ppMetricNames)
RIDGELINE_AT(HostEvaluateParams, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params,
             pMetricValues)
RIDGELINE_AT(SamplingEnableParams, object, CUpti_PmSampling_Enable_Params, pPmSamplingObject)
RIDGELINE_AT(SamplingSetConfigParams, config_bytes, CUpti_PmSampling_SetConfig_Params, configSize)
RIDGELINE_AT(SamplingSetConfigParams, config, CUpti_PmSampling_SetConfig_Params, pConfig)
RIDGELINE_AT(SamplingSetConfigParams, buffer_bytes, CUpti_PmSampling_SetConfig_Params,
             hardwareBufferSize)
RIDGELINE_AT(SamplingSetConfigParams, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval)
RIDGELINE_AT(SamplingSetConfigParams, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode)
RIDGELINE_AT(SamplingSetConfigParams, append, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode)
RIDGELINE_AT(SamplingGetCounterDataSizeParams, most_samples,
             CUpti_PmSampling_GetCounterDataSize_Params, maxSamples)
RIDGELINE_AT(SamplingGetCounterDataSizeParams, bytes, CUpti_PmSampling_GetCounterDataSize_Params,
             counterDataSize)
RIDGELINE_AT(SamplingImageInitializeParams, image,
             CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData)
RIDGELINE_AT(SamplingDecodeParams, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage)
RIDGELINE_AT(SamplingDecodeParams, stop_reason, CUpti_PmSampling_DecodeData_Params,
             decodeStopReason)
RIDGELINE_AT(SamplingDecodeParams, overflow, CUpti_PmSampling_DecodeData_Params, overflow)
RIDGELINE_AT(SamplingGetInfoParams, completed, CUpti_PmSampling_GetCounterDataInfo_Params,
             numCompletedSamples)
RIDGELINE_AT(SamplingGetSampleParams, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
             sampleIndex)
RIDGELINE_AT(SamplingGetSampleParams, begin, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
             startTimestamp)
RIDGELINE_AT(SamplingGetSampleParams, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params,
             endTimestamp)

TEST(PmSamplingDeclarations, AreNvidias) {}  // the assertions above are made at compile time

}  // namespace
}  // namespace ridgeline::cupti

#else

TEST(PmSamplingDeclarations, AreNvidias) {
  GTEST_SKIP() << "needs CUPTI's headers and cuda.h when the tests are built";
}

#endif

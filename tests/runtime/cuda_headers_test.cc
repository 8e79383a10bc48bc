// Holds our declarations of CUDA's libraries against NVIDIA's own headers, where those are
// installed: values, sizes, offsets, and each argument of each function.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>
#include <type_traits>

// Ours first: NVIDIA's headers define macros with the names of functions.
#include "jit/nvrtc_api.h"
#include "kernels/cuda/params.h"
#include "runtime/cuda/cublaslt_api.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/cuda/nvml_api.h"

namespace ridgeline {
namespace {
#define RIDGELINE_NAME(name, result, arguments) #name,
constexpr const char* kDriverNames[] = {RIDGELINE_CUDA_DRIVER_FUNCTIONS(RIDGELINE_NAME)};
}  // namespace
}  // namespace ridgeline

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace ridgeline {
namespace {

// Two types that travel alike: the same size, and both pointers, both floats, or both integers and
// enumerations. What pointers point at must match in the same way, but handles are opaque.
template <class Ours, class Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using OurTarget = std::remove_pointer_t<Ours>;
    using TheirTarget = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_pointer_v<OurTarget> || std::is_pointer_v<TheirTarget>) {
      return std::is_const_v<OurTarget> == std::is_const_v<TheirTarget> &&
             alike<std::remove_cv_t<OurTarget>, std::remove_cv_t<TheirTarget>>();
    } else if constexpr (std::is_arithmetic_v<OurTarget> || std::is_enum_v<OurTarget>) {
      return std::is_const_v<OurTarget> == std::is_const_v<TheirTarget> &&
             alike<std::remove_cv_t<OurTarget>, std::remove_cv_t<TheirTarget>>();
    } else {
      return std::is_void_v<OurTarget> == std::is_void_v<TheirTarget>;
    }
  } else if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else {
    const auto is_whole = [](auto same) {
      using Type = typename decltype(same)::type;
      return std::is_integral_v<Type> || std::is_enum_v<Type>;
    };
    return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
           is_whole(std::type_identity<Ours>{}) == is_whole(std::type_identity<Theirs>{});
  }
}

template <class Ours, class Theirs>
struct Agree : std::false_type {};

template <class OurResult, class... Ours, class TheirResult, class... Theirs>
struct Agree<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return alike<OurResult, TheirResult>() && (alike<Ours, Theirs>() && ...);
    } else {
      return false;
    }
  }();
};

// That the comparison itself can fail.
static_assert(Agree<int (*)(int*, float), int (*)(int*, float)>::value);
static_assert(!Agree<int (*)(int*, float), int (*)(int*, int)>::value);
static_assert(!Agree<int (*)(int*), int (*)(int*, int)>::value);
static_assert(!Agree<int (*)(int*), int (*)(long*)>::value);
static_assert(!Agree<int (*)(int*), int (*)(const int*)>::value);
static_assert(!Agree<int (*)(void*), int (*)(int*)>::value);
static_assert(!Agree<int (*)(unsigned), int (*)(size_t)>::value);

}  // namespace

// Old names are declared on purpose: old drivers have no others.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define RIDGELINE_AGREE(name, result, arguments) \
  static_assert(Agree<result(*) arguments, decltype(&::name)>::value, #name);
#define RIDGELINE_SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs);

#if __has_include(<cuda.h>)
constexpr bool kHaveDriver = true;
namespace cuda {
RIDGELINE_CUDA_DRIVER_FUNCTIONS(RIDGELINE_AGREE)
RIDGELINE_SAME(sizeof(DevicePointer), sizeof(CUdeviceptr))
RIDGELINE_SAME(sizeof(DeviceHandle), sizeof(CUdevice))
RIDGELINE_SAME(kSuccess, CUDA_SUCCESS)
RIDGELINE_SAME(kErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)
RIDGELINE_SAME(kErrorNotReady, CUDA_ERROR_NOT_READY)
RIDGELINE_SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
RIDGELINE_SAME(kClockRateKhz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
RIDGELINE_SAME(kComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
RIDGELINE_SAME(kComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
RIDGELINE_SAME(kL2CacheBytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
RIDGELINE_SAME(kSharedBytesPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
RIDGELINE_SAME(kLocalBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
RIDGELINE_SAME(kRegisters, CU_FUNC_ATTRIBUTE_NUM_REGS)
RIDGELINE_SAME(kMaxDynamicSharedBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
RIDGELINE_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING)
RIDGELINE_SAME(kRecordExternal, CU_EVENT_RECORD_EXTERNAL)
RIDGELINE_SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
RIDGELINE_SAME(kProgrammaticStreamSerialization,
               CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
RIDGELINE_SAME(sizeof(LaunchAttribute), sizeof(CUlaunchAttribute))
RIDGELINE_SAME(offsetof(LaunchAttribute, value), offsetof(CUlaunchAttribute, value))
RIDGELINE_SAME(sizeof(LaunchConfig), sizeof(CUlaunchConfig))
RIDGELINE_SAME(offsetof(LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes))
RIDGELINE_SAME(offsetof(LaunchConfig, stream), offsetof(CUlaunchConfig, hStream))
RIDGELINE_SAME(offsetof(LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs))
RIDGELINE_SAME(offsetof(LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs))
RIDGELINE_SAME(sizeof(TensorMap), sizeof(CUtensorMap))
RIDGELINE_SAME(alignof(TensorMap), 64)
RIDGELINE_SAME(kTensorMapFp16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
RIDGELINE_SAME(kTensorMapBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
RIDGELINE_SAME(kSwizzle128Bytes, CU_TENSOR_MAP_SWIZZLE_128B)
RIDGELINE_SAME(kPromoteTo128Bytes, CU_TENSOR_MAP_L2_PROMOTION_L2_128B)
// Those that driver_api.cc has advice for.
RIDGELINE_SAME(3, CUDA_ERROR_NOT_INITIALIZED)
RIDGELINE_SAME(4, CUDA_ERROR_DEINITIALIZED)
RIDGELINE_SAME(34, CUDA_ERROR_STUB_LIBRARY)
RIDGELINE_SAME(46, CUDA_ERROR_DEVICE_UNAVAILABLE)
RIDGELINE_SAME(100, CUDA_ERROR_NO_DEVICE)
RIDGELINE_SAME(101, CUDA_ERROR_INVALID_DEVICE)
RIDGELINE_SAME(200, CUDA_ERROR_INVALID_IMAGE)
RIDGELINE_SAME(209, CUDA_ERROR_NO_BINARY_FOR_GPU)
RIDGELINE_SAME(214, CUDA_ERROR_ECC_UNCORRECTABLE)
RIDGELINE_SAME(218, CUDA_ERROR_INVALID_PTX)
RIDGELINE_SAME(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
RIDGELINE_SAME(700, CUDA_ERROR_ILLEGAL_ADDRESS)
RIDGELINE_SAME(702, CUDA_ERROR_LAUNCH_TIMEOUT)
RIDGELINE_SAME(715, CUDA_ERROR_ILLEGAL_INSTRUCTION)
RIDGELINE_SAME(716, CUDA_ERROR_MISALIGNED_ADDRESS)
RIDGELINE_SAME(717, CUDA_ERROR_INVALID_ADDRESS_SPACE)
RIDGELINE_SAME(718, CUDA_ERROR_INVALID_PC)
RIDGELINE_SAME(719, CUDA_ERROR_LAUNCH_FAILED)
RIDGELINE_SAME(802, CUDA_ERROR_SYSTEM_NOT_READY)
RIDGELINE_SAME(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)
RIDGELINE_SAME(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
RIDGELINE_SAME(999, CUDA_ERROR_UNKNOWN)
}  // namespace cuda
#else
constexpr bool kHaveDriver = false;
#endif

#if __has_include(<nvrtc.h>)
constexpr bool kHaveNvrtc = true;
namespace nvrtc {
RIDGELINE_NVRTC_FUNCTIONS(RIDGELINE_AGREE)
RIDGELINE_SAME(kSuccess, NVRTC_SUCCESS)
RIDGELINE_SAME(kOutOfMemory, NVRTC_ERROR_OUT_OF_MEMORY)
RIDGELINE_SAME(kInvalidOption, NVRTC_ERROR_INVALID_OPTION)
RIDGELINE_SAME(kCompilation, NVRTC_ERROR_COMPILATION)
}  // namespace nvrtc
#else
constexpr bool kHaveNvrtc = false;
#endif

#if __has_include(<nvml.h>)
constexpr bool kHaveNvml = true;
#ifndef nvmlClocksEventReasonGpuIdle  // before CUDA 12.2 it had the old name only
#define nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons
#endif
namespace nvml {
RIDGELINE_NVML_FUNCTIONS(RIDGELINE_AGREE)
RIDGELINE_SAME(kSuccess, NVML_SUCCESS)
RIDGELINE_SAME(kClockSm, NVML_CLOCK_SM)
RIDGELINE_SAME(kClockMemory, NVML_CLOCK_MEM)
RIDGELINE_SAME(kTemperatureGpu, NVML_TEMPERATURE_GPU)
RIDGELINE_SAME(kDriverVersionBytes, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE)
RIDGELINE_SAME(0x2, nvmlClocksThrottleReasonApplicationsClocksSetting)
RIDGELINE_SAME(0x4, nvmlClocksThrottleReasonSwPowerCap)
RIDGELINE_SAME(0x8, nvmlClocksThrottleReasonHwSlowdown)
RIDGELINE_SAME(0x20, nvmlClocksThrottleReasonSwThermalSlowdown)
RIDGELINE_SAME(0x40, nvmlClocksThrottleReasonHwThermalSlowdown)
RIDGELINE_SAME(0x80, nvmlClocksThrottleReasonHwPowerBrakeSlowdown)
}  // namespace nvml
#else
constexpr bool kHaveNvml = false;
#endif

#if __has_include(<cublasLt.h>)
constexpr bool kHaveCublasLt = true;
namespace cublaslt {
RIDGELINE_CUBLASLT_FUNCTIONS(RIDGELINE_AGREE)
RIDGELINE_SAME(kSuccess, CUBLAS_STATUS_SUCCESS)
RIDGELINE_SAME(kReal32, CUDA_R_32F)
RIDGELINE_SAME(kReal16, CUDA_R_16F)
RIDGELINE_SAME(kRealBf16, CUDA_R_16BF)
RIDGELINE_SAME(kCompute32, CUBLAS_COMPUTE_32F)
RIDGELINE_SAME(kCompute32FastTf32, CUBLAS_COMPUTE_32F_FAST_TF32)
RIDGELINE_SAME(kAsIs, CUBLAS_OP_N)
RIDGELINE_SAME(kTransposed, CUBLAS_OP_T)
RIDGELINE_SAME(kTransposeA, CUBLASLT_MATMUL_DESC_TRANSA)
RIDGELINE_SAME(kTransposeB, CUBLASLT_MATMUL_DESC_TRANSB)
RIDGELINE_SAME(kEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE)
RIDGELINE_SAME(kBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER)
RIDGELINE_SAME(kMultiprocessors, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET)
RIDGELINE_SAME(kNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT)
RIDGELINE_SAME(kRelu, CUBLASLT_EPILOGUE_RELU)
RIDGELINE_SAME(kBias, CUBLASLT_EPILOGUE_BIAS)
RIDGELINE_SAME(kGelu, CUBLASLT_EPILOGUE_GELU)
RIDGELINE_SAME(kRelu | kBias, CUBLASLT_EPILOGUE_RELU_BIAS)
RIDGELINE_SAME(kGelu | kBias, CUBLASLT_EPILOGUE_GELU_BIAS)
RIDGELINE_SAME(kBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
RIDGELINE_SAME(kBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
RIDGELINE_SAME(kMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
RIDGELINE_SAME(kReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
RIDGELINE_SAME(kReduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
RIDGELINE_SAME(kMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES)
RIDGELINE_SAME(kMinAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES)
RIDGELINE_SAME(kMinAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES)
RIDGELINE_SAME(kMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
RIDGELINE_SAME(sizeof(Algorithm), sizeof(cublasLtMatmulAlgo_t))
RIDGELINE_SAME(alignof(Algorithm), alignof(cublasLtMatmulAlgo_t))
RIDGELINE_SAME(sizeof(HeuristicResult), sizeof(cublasLtMatmulHeuristicResult_t))
RIDGELINE_SAME(offsetof(HeuristicResult, algorithm),
               offsetof(cublasLtMatmulHeuristicResult_t, algo))
RIDGELINE_SAME(offsetof(HeuristicResult, workspace_bytes),
               offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize))
RIDGELINE_SAME(offsetof(HeuristicResult, state), offsetof(cublasLtMatmulHeuristicResult_t, state))
RIDGELINE_SAME(offsetof(HeuristicResult, waves),
               offsetof(cublasLtMatmulHeuristicResult_t, wavesCount))
}  // namespace cublaslt
#else
constexpr bool kHaveCublasLt = false;
#endif

// The compiler has compared it all by now; the tests say what there was to compare with.
struct Header {
  const char* name;
  bool was_there;
};

constexpr Header kHeaders[] = {
    {"cuda.h", kHaveDriver},
    {"nvrtc.h", kHaveNvrtc},
    {"nvml.h", kHaveNvml},
    {"cublasLt.h", kHaveCublasLt},
};

class CudaHeadersThere : public ::testing::TestWithParam<Header> {};

TEST_P(CudaHeadersThere, AgreeWithOurDeclarations) {
  if (!GetParam().was_there)
    GTEST_SKIP() << GetParam().name << " was not there when the tests were built";
}

// The headers know names by which a library does not export a function; the toolkit's stand-in for
// the driver exports what the driver does.
TEST(CudaHeaders, TheDriverExportsWhatWeAskFor) {
  void* stub = nullptr;
  for (const char* path : {"/usr/local/cuda/lib64/stubs/libcuda.so",
                           "/usr/local/cuda/targets/x86_64-linux/lib/stubs/libcuda.so"})
    if (!stub) stub = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (!stub) GTEST_SKIP() << "no toolkit with a stub of the driver in /usr/local/cuda";
  for (const char* name : kDriverNames) EXPECT_NE(dlsym(stub, name), nullptr) << name;
  dlclose(stub);  // or a later test of this process would take it for the driver
}

INSTANTIATE_TEST_SUITE_P(All, CudaHeadersThere, ::testing::ValuesIn(kHeaders),
                         [](const auto& header) {
                           const std::string name = header.param.name;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace ridgeline

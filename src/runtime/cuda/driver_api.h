// The part of the CUDA driver that Ridgeline uses, declared here so that building needs no toolkit.
// tests/runtime/cuda_headers_test.cc checks it against the real cuda.h where available.
#pragma once

#include <cstddef>
#include <cstdint>

#include "jit/cuda_libraries.h"

namespace ridgeline {
struct TensorMap;  // CUtensorMap; kernels/cuda/params.h
}

namespace ridgeline::cuda {

using Result = int;  // 0: success
using DeviceHandle = int;
using DevicePointer = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using LaunchGraph = struct LaunchGraphTag*;
using LaunchGraphExec = struct LaunchGraphExecTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorNotReady = 600;

enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kClockRateKhz = 13,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kL2CacheBytes = 38,
  kSharedBytesPerBlockOptin = 97,
};

enum FunctionAttribute : int {
  kLocalBytes = 3,
  kRegisters = 4,
  kMaxDynamicSharedBytes = 8,
};

enum StreamFlags : unsigned { kStreamNonBlocking = 1 };
enum StreamCaptureMode : int { kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum StreamCaptureStatus : int { kNoCapture = 0 };
// In a capture: every launch of the graph records the event again, for waits outside the graph.
enum EventRecordFlags : unsigned { kRecordExternal = 1 };

struct LaunchAttribute {
  int id;
  int padding = 0;
  int value;
  alignas(8) char rest[56] = {};
};
// The kernel may start while its predecessor in the stream is still finishing.
inline constexpr int kProgrammaticStreamSerialization = 6;

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

enum TensorMapType : int { kTensorMapFp16 = 6, kTensorMapBf16 = 9 };
enum TensorMapSwizzle : int { kSwizzle128Bytes = 3 };
enum TensorMapPromotion : int { kPromoteTo128Bytes = 2 };

// name in the library, result, arguments
#define RIDGELINE_CUDA_DRIVER_FUNCTIONS(X)                                                         \
  X(cuInit, Result, (unsigned flags))                                                              \
  X(cuDriverGetVersion, Result, (int* version))                                                    \
  X(cuGetErrorName, Result, (Result error, const char** name))                                     \
  X(cuGetErrorString, Result, (Result error, const char** text))                                   \
  X(cuDeviceGetCount, Result, (int* count))                                                        \
  X(cuDeviceGet, Result, (DeviceHandle * device, int ordinal))                                     \
  X(cuDeviceGetName, Result, (char* name, int length, DeviceHandle device))                        \
  X(cuDeviceGetAttribute, Result, (int* value, DeviceAttribute attribute, DeviceHandle device))    \
  X(cuDeviceGetPCIBusId, Result, (char* id, int length, DeviceHandle device))                      \
  X(cuDeviceTotalMem_v2, Result, (size_t * bytes, DeviceHandle device))                            \
  X(cuDevicePrimaryCtxRetain, Result, (Context * context, DeviceHandle device))                    \
  X(cuDevicePrimaryCtxRelease_v2, Result, (DeviceHandle device))                                   \
  X(cuCtxGetCurrent, Result, (Context * context))                                                  \
  X(cuCtxSetCurrent, Result, (Context context))                                                    \
  X(cuCtxSynchronize, Result, ())                                                                  \
  X(cuMemGetInfo_v2, Result, (size_t * free, size_t * total))                                      \
  X(cuMemAlloc_v2, Result, (DevicePointer * pointer, size_t bytes))                                \
  X(cuMemFree_v2, Result, (DevicePointer pointer))                                                 \
  X(cuMemcpyHtoD_v2, Result, (DevicePointer to, const void* from, size_t bytes))                   \
  X(cuMemcpyDtoH_v2, Result, (void* to, DevicePointer from, size_t bytes))                         \
  X(cuMemHostAlloc, Result, (void** pointer, size_t bytes, unsigned flags))                        \
  X(cuMemFreeHost, Result, (void* pointer))                                                        \
  X(cuMemcpyHtoDAsync_v2, Result,                                                                  \
    (DevicePointer to, const void* from, size_t bytes, Stream stream))                             \
  X(cuMemcpyDtoHAsync_v2, Result, (void* to, DevicePointer from, size_t bytes, Stream stream))     \
  X(cuMemcpyDtoDAsync_v2, Result,                                                                  \
    (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))                           \
  X(cuMemsetD8Async, Result, (DevicePointer to, unsigned char value, size_t bytes, Stream stream)) \
  X(cuStreamDestroy_v2, Result, (Stream stream))                                                   \
  X(cuStreamSynchronize, Result, (Stream stream))                                                  \
  X(cuStreamBeginCapture_v2, Result, (Stream stream, StreamCaptureMode mode))                      \
  X(cuThreadExchangeStreamCaptureMode, Result, (StreamCaptureMode * mode))                         \
  X(cuStreamIsCapturing, Result, (Stream stream, StreamCaptureStatus * status))                    \
  X(cuStreamEndCapture, Result, (Stream stream, LaunchGraph * graph))                              \
  X(cuGraphInstantiateWithFlags, Result,                                                           \
    (LaunchGraphExec * executable, LaunchGraph graph, unsigned long long flags))                   \
  X(cuGraphLaunch, Result, (LaunchGraphExec executable, Stream stream))                            \
  X(cuGraphDestroy, Result, (LaunchGraph graph))                                                   \
  X(cuGraphExecDestroy, Result, (LaunchGraphExec executable))                                      \
  X(cuEventCreate, Result, (Event * event, unsigned flags))                                        \
  X(cuEventDestroy_v2, Result, (Event event))                                                      \
  X(cuEventRecord, Result, (Event event, Stream stream))                                           \
  X(cuEventRecordWithFlags, Result, (Event event, Stream stream, unsigned flags))                  \
  X(cuEventQuery, Result, (Event event))                                                           \
  X(cuStreamCreateWithPriority, Result, (Stream * stream, unsigned flags, int priority))           \
  X(cuCtxGetStreamPriorityRange, Result, (int* least, int* greatest))                              \
  X(cuStreamWaitEvent, Result, (Stream stream, Event event, unsigned flags))                       \
  X(cuEventSynchronize, Result, (Event event))                                                     \
  X(cuEventElapsedTime, Result, (float* milliseconds, Event from, Event to))                       \
  X(cuModuleLoadData, Result, (Module * module, const void* image))                                \
  X(cuModuleUnload, Result, (Module module))                                                       \
  X(cuModuleGetFunction, Result, (Function * function, Module module, const char* name))           \
  X(cuFuncGetAttribute, Result, (int* value, FunctionAttribute attribute, Function function))      \
  X(cuFuncSetAttribute, Result, (Function function, FunctionAttribute attribute, int value))       \
  X(cuTensorMapEncodeTiled, Result,                                                                \
    (TensorMap * map, TensorMapType type, unsigned rank, void* address, const uint64_t* sizes,     \
     const uint64_t* strides_bytes, const unsigned* box, const unsigned* element_strides,          \
     int interleave, TensorMapSwizzle swizzle, TensorMapPromotion promotion, int fill))            \
  X(cuLaunchKernel, Result,                                                                        \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,  \
     void** extra))                                                                                \
  X(cuLaunchKernelEx, Result,                                                                      \
    (const LaunchConfig* config, Function function, void** parameters, void** extra))

RIDGELINE_API(Driver, RIDGELINE_CUDA_DRIVER_FUNCTIONS);

// Opens the driver once and calls cuInit. Throws an unsupported error that says what is missing (no
// driver library, a symbol too old, no GPU) and what to do.
const Driver& driver();

// Throws unless `result` is success: out_of_memory for that, environment for everything else.
// `what` describes the operation: "copying 4 KiB to the GPU".
void check(Result result, const char* what);

}  // namespace ridgeline::cuda

// A library that stands in for libcuda.so.1 with one GPU, whose memory is this process's own and
// whose kernels are the functions below, found by their names. Any other kernel does nothing. The
// GPU is of compute capability 8.0, or 9.0 where RIDGELINE_FAKE_HOPPER is set.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/cuda/driver_api.h"

namespace {

using namespace ridgeline::cuda;

constexpr Result kIllegalAddress = 700;
Result broken = kSuccess;  // after a fault nothing works any more
bool hanging = false;

struct Arguments {
  const float *q, *k, *v;
  float* output;
  int batch, heads, seq_len, head_dim;
  float scale;
  int causal;

  long long elements() const { return 1ll * batch * heads * seq_len * head_dim; }
};

template <class T>
T argument(void** parameters, int index) {
  return *static_cast<T*>(parameters[index]);
}

Arguments arguments_of(void** p) {
  return {argument<const float*>(p, 0), argument<const float*>(p, 1), argument<const float*>(p, 2),
          argument<float*>(p, 3),       argument<int>(p, 4),          argument<int>(p, 5),
          argument<int>(p, 6),          argument<int>(p, 7),          argument<float>(p, 8),
          argument<int>(p, 9)};
}

void right(const Arguments& a) {
  for (int head = 0; head < a.batch * a.heads; ++head) {
    const long long at = 1ll * head * a.seq_len * a.head_dim;
    for (int i = 0; i < a.seq_len; ++i) {
      const int keys = a.causal ? i + 1 : a.seq_len;
      std::vector<double> weights(static_cast<size_t>(keys));
      double total = 0;
      for (int j = 0; j < keys; ++j) {
        double score = 0;
        for (int c = 0; c < a.head_dim; ++c)
          score += a.q[at + i * a.head_dim + c] * a.k[at + j * a.head_dim + c];
        total += weights[static_cast<size_t>(j)] = std::exp(score * a.scale);
      }
      for (int c = 0; c < a.head_dim; ++c) {
        double sum = 0;
        for (int j = 0; j < keys; ++j)
          sum += weights[static_cast<size_t>(j)] * a.v[at + j * a.head_dim + c];
        a.output[at + i * a.head_dim + c] = static_cast<float>(sum / total);
      }
    }
  }
}

struct Kernel {
  const char* name;
  void (*run)(const Arguments&);
};
const Kernel kKernels[] = {
    {"right", right},
    {"wrong",
     [](const Arguments& a) {
       right(a);
       a.output[a.elements() - 1] += 1;
     }},
    {"hold", nullptr},  // takes time of the GPU, see cuLaunchKernel
    {"unwritten", [](const Arguments&) {}},
    {"overruns",
     [](const Arguments& a) {
       right(a);
       a.output[a.elements()] = 0;
     }},
    {"underruns",
     [](const Arguments& a) {
       right(a);
       a.output[-1] = 0;
     }},
    {"scribbles",
     [](const Arguments& a) {
       right(a);
       const_cast<float*>(a.k)[0] = 0;
     }},
    {"hangs", [](const Arguments&) { hanging = true; }},
    {"faults", [](const Arguments&) { broken = kIllegalAddress; }},
    {"crashes", [](const Arguments&) { raise(SIGSEGV); }},
};

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

// When all that was queued on a stream is done. Kernels write their results at once, but a hold
// takes time, and what is queued behind it comes later.
std::map<Stream, double> done_at_ms;

double reached_at_ms(Stream stream) {
  return std::max(now_ms(), done_at_ms[stream]);
}

Result wait() {
  while (hanging) std::this_thread::sleep_for(std::chrono::seconds(1));
  for (const auto& [stream, done_ms] : done_at_ms)
    while (now_ms() < done_ms) std::this_thread::sleep_for(std::chrono::microseconds(20));
  return broken;
}

int attribute(int which) {
  static const bool is_hopper = std::getenv("RIDGELINE_FAKE_HOPPER") != nullptr;
  switch (which) {
    case kMultiprocessorCount:
      return 4;
    case kClockRateKhz:
      return 1'000'000;
    case kComputeCapabilityMajor:
      return is_hopper ? 9 : 8;
    case kComputeCapabilityMinor:
      return 0;
    case kL2CacheBytes:
      return 1 << 16;
    case kSharedBytesPerBlockOptin:
      return (is_hopper ? 227 : 163) << 10;
    default:
      return 0;
  }
}

constexpr size_t kMemory = size_t{1} << 32;

thread_local Context current = nullptr;
thread_local StreamCaptureMode capture_mode = {};
Stream captured = nullptr;  // by the program that uses the library
Stream last_stream = nullptr;
long long launches = 0, loads = 0, allocations = 0, frees = 0, context_waits = 0;
void (*launch_watch)(void** parameters) = nullptr;

}  // namespace

#define FAKE(name) extern "C" Result name

// For tests: what was asked of this library since it was loaded.
extern "C" void fake_gpu_counts(long long* counts) {
  counts[0] = launches;
  counts[1] = loads;
  counts[2] = allocations;
  counts[3] = frees;
  counts[4] = context_waits;
}
extern "C" void* fake_gpu_last_stream() {
  return last_stream;
}
extern "C" void fake_gpu_watch_launches(void (*watch)(void** parameters)) {
  launch_watch = watch;
}
extern "C" void fake_gpu_capture(void* stream) {
  captured = static_cast<Stream>(stream);
}

FAKE(cuInit)(unsigned) {
  return kSuccess;
}
FAKE(cuDriverGetVersion)(int* version) {
  return *version = 13000, kSuccess;
}
FAKE(cuGetErrorName)(Result error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}
FAKE(cuGetErrorString)(Result error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : "unknown error";
  return kSuccess;
}
FAKE(cuDeviceGetCount)(int* count) {
  return *count = 1, kSuccess;
}
FAKE(cuDeviceGet)(DeviceHandle* device, int) {
  return *device = 0, kSuccess;
}
FAKE(cuDeviceGetName)(char* name, int length, DeviceHandle) {
  std::strncpy(name, "Stand-in GPU", static_cast<size_t>(length));
  return kSuccess;
}
FAKE(cuDeviceGetAttribute)(int* value, DeviceAttribute which, DeviceHandle) {
  return *value = attribute(which), kSuccess;
}
FAKE(cuDeviceGetPCIBusId)(char* id, int length, DeviceHandle) {
  std::strncpy(id, "0000:00:00.0", static_cast<size_t>(length));
  return kSuccess;
}
FAKE(cuDeviceTotalMem_v2)(size_t* bytes, DeviceHandle) {
  return *bytes = kMemory, kSuccess;
}
FAKE(cuDevicePrimaryCtxRetain)(Context* context, DeviceHandle) {
  static int any;
  return *context = reinterpret_cast<Context>(&any), kSuccess;
}
FAKE(cuDevicePrimaryCtxRelease_v2)(DeviceHandle) {
  return kSuccess;
}
FAKE(cuCtxSetCurrent)(Context context) {
  current = context;
  return broken;
}
FAKE(cuCtxGetCurrent)(Context* context) {
  return *context = current, kSuccess;
}
FAKE(cuCtxSynchronize)() {
  ++context_waits;
  return wait();
}
FAKE(cuMemGetInfo_v2)(size_t* free, size_t* total) {
  return *free = *total = kMemory, kSuccess;
}
FAKE(cuMemAlloc_v2)(DevicePointer* pointer, size_t bytes) {
  ++allocations;
  *pointer = reinterpret_cast<DevicePointer>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return broken;
}
FAKE(cuMemFree_v2)(DevicePointer pointer) {
  ++frees;
  std::free(reinterpret_cast<void*>(pointer));
  return broken;
}
FAKE(cuMemcpyHtoD_v2)(DevicePointer to, const void* from, size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return wait();
}
FAKE(cuMemcpyDtoH_v2)(void* to, DevicePointer from, size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return wait();
}
FAKE(cuMemcpyDtoDAsync_v2)(DevicePointer to, DevicePointer from, size_t bytes, Stream) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return broken;
}
FAKE(cuMemHostAlloc)(void** pointer, size_t bytes, unsigned) {
  return *pointer = std::malloc(bytes), broken;
}
FAKE(cuMemFreeHost)(void* pointer) {
  return std::free(pointer), broken;
}
FAKE(cuMemcpyHtoDAsync_v2)(DevicePointer to, const void* from, size_t bytes, Stream) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return broken;
}
FAKE(cuMemcpyDtoHAsync_v2)(void* to, DevicePointer from, size_t bytes, Stream) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return broken;
}
FAKE(cuMemsetD8Async)(DevicePointer to, unsigned char value, size_t bytes, Stream) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return broken;
}
FAKE(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  return *least = *greatest = 0, kSuccess;
}
FAKE(cuStreamCreateWithPriority)(Stream* stream, unsigned, int) {
  static int any;
  return *stream = reinterpret_cast<Stream>(&any), kSuccess;
}
FAKE(cuStreamWaitEvent)(Stream, Event, unsigned) {
  return broken;
}
FAKE(cuStreamDestroy_v2)(Stream) {
  return kSuccess;
}
FAKE(cuStreamSynchronize)(Stream) {
  return wait();
}
FAKE(cuStreamBeginCapture_v2)(Stream, StreamCaptureMode) {
  return broken;
}
FAKE(cuThreadExchangeStreamCaptureMode)(StreamCaptureMode* mode) {
  return std::swap(*mode, capture_mode), kSuccess;
}
FAKE(cuStreamIsCapturing)(Stream stream, StreamCaptureStatus* status) {
  return *status = static_cast<StreamCaptureStatus>(captured != nullptr && stream == captured),
         kSuccess;
}
FAKE(cuStreamEndCapture)(Stream, LaunchGraph* graph) {
  static int any;
  return *graph = reinterpret_cast<LaunchGraph>(&any), broken;
}
FAKE(cuGraphInstantiateWithFlags)(LaunchGraphExec* executable, LaunchGraph, unsigned long long) {
  static int any;
  return *executable = reinterpret_cast<LaunchGraphExec>(&any), broken;
}
FAKE(cuGraphLaunch)(LaunchGraphExec, Stream) {
  return broken;
}
FAKE(cuGraphDestroy)(LaunchGraph) {
  return kSuccess;
}
FAKE(cuGraphExecDestroy)(LaunchGraphExec) {
  return kSuccess;
}
FAKE(cuEventCreate)(Event* event, unsigned) {
  return *event = reinterpret_cast<Event>(new double(0)), kSuccess;
}
FAKE(cuEventDestroy_v2)(Event event) {
  delete reinterpret_cast<double*>(event);
  return kSuccess;
}
FAKE(cuEventRecord)(Event event, Stream stream) {
  *reinterpret_cast<double*>(event) = reached_at_ms(stream);
  return broken;
}
FAKE(cuEventRecordWithFlags)(Event event, Stream stream, unsigned) {
  return cuEventRecord(event, stream);
}
FAKE(cuEventQuery)(Event) {
  return broken;
}
FAKE(cuEventSynchronize)(Event) {
  return wait();
}
FAKE(cuEventElapsedTime)(float* milliseconds, Event from, Event to) {
  *milliseconds =
      static_cast<float>(*reinterpret_cast<double*>(to) - *reinterpret_cast<double*>(from));
  return broken;
}
FAKE(cuModuleLoadData)(Module* module, const void*) {
  ++loads;
  static int any;
  return *module = reinterpret_cast<Module>(&any), broken;
}
FAKE(cuModuleUnload)(Module) {
  return kSuccess;
}
FAKE(cuModuleGetFunction)(Function* function, Module, const char* name) {
  static const Kernel kNothing{"", [](const Arguments&) {}};
  const Kernel* found = &kNothing;
  for (const Kernel& kernel : kKernels)
    if (std::string_view(kernel.name) == name) found = &kernel;
  *function = reinterpret_cast<Function>(const_cast<Kernel*>(found));
  return broken;
}
FAKE(cuFuncGetAttribute)(int* value, FunctionAttribute, Function) {
  return *value = 0, kSuccess;
}
FAKE(cuFuncSetAttribute)(Function, FunctionAttribute, int) {
  return broken;
}
FAKE(cuTensorMapEncodeTiled)
(ridgeline::TensorMap*, TensorMapType, unsigned, void*, const uint64_t*, const uint64_t*,
 const unsigned*, const unsigned*, int, TensorMapSwizzle, TensorMapPromotion, int) {
  return broken;
}
FAKE(cuLaunchKernel)
(Function function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
 Stream stream, void** parameters, void**) {
  const Kernel& kernel = *reinterpret_cast<Kernel*>(function);
  if (std::string_view(kernel.name) == "hold")
    done_at_ms[stream] = reached_at_ms(stream) +
                         1e-6 * static_cast<double>(argument<unsigned long long>(parameters, 0));
  else if (*kernel.name)
    kernel.run(arguments_of(parameters));
  return kSuccess;  // what goes wrong shows later
}
FAKE(cuLaunchKernelEx)
(const LaunchConfig* config, Function function, void** parameters, void** extra) {
  ++launches;
  last_stream = config->stream;
  if (launch_watch != nullptr) launch_watch(parameters);
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, config->stream, parameters, extra);
}

#include "runtime/cuda/driver_api.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "jit/cuda_libraries.h"

namespace ridgeline::cuda {
namespace {

constexpr const char* kDoctor = "`ridgeline doctor` lists what was found";

// The next step for errors that have a usual cause.
struct Advice {
  Result result;
  const char* next_step;
};

constexpr const char* kLostContext =
    "a kernel broke the context: start the program again, and under compute-sanitizer to find "
    "where";
constexpr const char* kWrongImage =
    "the driver may be older than the compiler: update the driver, or let CUDA_HOME name a toolkit "
    "that the driver serves";

constexpr Advice kAdvice[] = {
    {2, "use smaller sizes, or end what else holds memory on this GPU (nvidia-smi lists it)"},
    {3, "start the program again: the driver was shut down under it"},
    {34, "libcuda.so.1 is the toolkit's stub: take its directory out of LD_LIBRARY_PATH"},
    {46,
     "another process has this GPU for itself, or its compute mode forbids use: see nvidia-smi"},
    {100, "check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it"},
    {101, "choose one of the GPUs that `ridgeline doctor` lists"},
    {200, kWrongImage},
    {209, kWrongImage},
    {214, "the GPU's memory has an error that cannot be corrected: reset the GPU"},
    {218, kWrongImage},
    {222, kWrongImage},
    {700, kLostContext},
    {702, "a kernel ran past the watchdog's limit: use smaller sizes, or a GPU without a display"},
    {715, kLostContext},
    {716, kLostContext},
    {717, kLostContext},
    {718, kLostContext},
    {719, kLostContext},
    {802, "the GPU's fabric is not ready: start nvidia-fabricmanager"},
    {803, "the driver's library does not fit its kernel module: reboot, or reload the module"},
    {804,
     "take the forward-compatibility libcuda out of LD_LIBRARY_PATH: this GPU has no use for it"},
    {999, "see dmesg for what the driver said (lines with NVRM or Xid)"},
};

const char* advice(Result result) {
  for (const Advice& row : kAdvice)
    if (row.result == result) return row.next_step;
  return kDoctor;
}

// Returns "CUDA_ERROR_NO_DEVICE (100: no CUDA-capable device is detected)".
std::string describe(const Driver& api, Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  api.cuGetErrorName(result, &name);
  api.cuGetErrorString(result, &text);
  return fmt::format("{} ({}: {})", name ? name : "an unknown error", result, text ? text : "?");
}

Driver open_driver() {
  const CudaLibrary& library = cuda_library("cuda");
  if (!library)
    throw Error(ErrorKind::unsupported,
                fmt::format("no NVIDIA driver was found (tried {})", tried_text(library)),
                library.how_to_get);
  Driver api;
  if (const std::string missing = load_functions(library, api); !missing.empty())
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the NVIDIA driver at {} is too old: it lacks {}", library.path, missing),
        "update the driver to one that serves CUDA 12 (version 525 or newer)");
  if (const Result result = api.cuInit(0); result != kSuccess)
    throw Error(ErrorKind::unsupported,
                fmt::format("the NVIDIA driver at {} does not start: cuInit gave {}", library.path,
                            describe(api, result)),
                advice(result));
  int count = 0;
  if (api.cuDeviceGetCount(&count) != kSuccess || count == 0)
    throw Error(ErrorKind::unsupported,
                fmt::format("the NVIDIA driver at {} sees no GPU", library.path), advice(100));
  return api;
}

}  // namespace

const Driver& driver() {
  static const Driver instance = open_driver();
  return instance;
}

void check(Result result, const char* what) {
  if (result == kSuccess) return;
  throw Error(result == kErrorOutOfMemory ? ErrorKind::out_of_memory : ErrorKind::environment,
              fmt::format("{} failed: the CUDA driver gave {}", what, describe(driver(), result)),
              advice(result));
}

}  // namespace ridgeline::cuda

// The part of `ridgeline doctor` about NVIDIA GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/print.h"
#include "cli/doctor.h"
#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "jit/disk_cache.h"
#include "runtime/cuda/cublaslt_api.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/cuda/nvml.h"

namespace ridgeline {
namespace {

// Returns "CUDA 13.0" for 13000.
std::string cuda_version(int number) {
  return fmt::format("CUDA {}.{}", number / 1000, number % 1000 / 10);
}

std::string driver_text() {
  int version = 0;
  const auto get_version =
      reinterpret_cast<int (*)(int*)>(cuda_library("cuda").symbol("cuDriverGetVersion"));
  const std::string serves = get_version && get_version(&version) == 0 ? cuda_version(version) : "";
  const std::string own = nvidia_driver_version();
  return fmt::format("{}{}{}", own, own.empty() || serves.empty() ? "" : ", serves ", serves);
}

std::string library_version(std::string_view stem) {
  if (stem == "cuda") return driver_text();
  if (stem == "nvrtc") return nvrtc_version();
  if (stem != "cublasLt") return "";
  try {
    return cublaslt::version();
  } catch (const Error&) {  // too old; an error is reported when it is used
    return "of unknown version";
  }
}

void print_library(const CudaLibraryFacts& facts) {
  const CudaLibrary& library = cuda_library(facts.stem);
  const std::string name =
      facts.stem == "cuda" ? "NVIDIA driver" : fmt::format("lib{}", facts.stem);
  if (library) {
    const std::string version = library_version(facts.stem);
    doctor_line(name, fmt::format("{}{}{}", version, version.empty() ? "" : ", ", library.path));
    return;
  }
  doctor_line(name, fmt::format("not found: it {}", facts.purpose));
  doctor_line("", library.how_to_get);
  for (const std::string& place : library.tried) doctor_line("", "looked in " + place);
}

std::string if_known(const char* text, const std::optional<double>& value) {
  return value ? fmt::format(fmt::runtime(text), *value) : "";
}

std::string state_text(const GpuState& state) {
  std::vector<std::string> parts;
  const auto add = [&](const std::string& part) {
    if (!part.empty()) parts.push_back(part);
  };
  add(if_known("SM clock {:.0f} MHz", state.sm_clock_mhz));
  add(if_known("at most {:.0f} MHz", state.max_sm_clock_mhz));
  add(if_known("memory {:.0f} MHz", state.memory_clock_mhz));
  if (state.clocks_locked) add(*state.clocks_locked ? "clocks held by a setting" : "clocks free");
  add(if_known("{:.0f} W", state.power_w));
  add(if_known("limit {:.0f} W", state.power_limit_w));
  add(if_known("{:.0f} C", state.temperature_c));
  if (!state.throttle_reasons.empty()) add("clock limited by: " + state.throttle_reasons);
  return fmt::format("{}", fmt::join(parts, ", "));
}

void print_gpu(const cuda::Driver& driver, int ordinal) {
  cuda::DeviceHandle handle = 0;
  cuda::check(driver.cuDeviceGet(&handle, ordinal), "opening a GPU");
  const auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    cuda::check(driver.cuDeviceGetAttribute(&value, which, handle), "asking for a GPU's facts");
    return value;
  };
  char name[256] = {};
  size_t memory = 0;
  cuda::check(driver.cuDeviceGetName(name, sizeof name, handle), "asking for a GPU's name");
  cuda::check(driver.cuDeviceTotalMem_v2(&memory, handle), "asking for a GPU's memory");
  doctor_line(
      fmt::format("cuda:{}", ordinal),
      fmt::format("{}, compute capability {}.{}, {} SMs, {} of memory, {} of L2 cache", name,
                  attribute(cuda::kComputeCapabilityMajor),
                  attribute(cuda::kComputeCapabilityMinor), attribute(cuda::kMultiprocessorCount),
                  to_string(Bytes{static_cast<int64_t>(memory)}),
                  to_string(Bytes{attribute(cuda::kL2CacheBytes)})));
  const std::optional<GpuState> state = gpu_state(ordinal);
  doctor_line("", state ? state_text(*state)
                        : "clocks, power and temperature cannot be read: no NVML for this GPU");
}

void print_cache() {
  const std::filesystem::path directory = default_jit_cache();
  std::string text =
      fmt::format("{}, {} used of at most {}", directory.string(), to_string(cache_size(directory)),
                  to_string(DiskCache::kDefaultLimit));
  if (directory.empty()) text = "none: neither HOME nor RIDGELINE_CACHE_DIR is set";
  if (directory == "off") text = "none: RIDGELINE_CACHE_DIR=off";
  doctor_line("kernel cache", text);
}

// The libraries that are missing for --device cuda; empty: none.
std::string obstacle() {
  std::string missing;
  for (const char* stem : {"nvrtc", "cublasLt"})
    if (!cuda_library(stem))
      missing += fmt::format("{}lib{}", missing.empty() ? "" : " and ", stem);
  return missing.empty() ? "" : fmt::format("{} not found", missing);
}

}  // namespace

void print_cuda_facts() {
  print("CUDA device\n");
  for (const CudaLibraryFacts& facts : cuda_library_list()) print_library(facts);
  std::string reason;
  try {
    const cuda::Driver& driver = cuda::driver();
    int count = 0;
    cuda::check(driver.cuDeviceGetCount(&count), "counting GPUs");
    for (int ordinal = 0; ordinal < count; ++ordinal) print_gpu(driver, ordinal);
    reason = obstacle();
  } catch (const Error& error) {
    const bool has_driver = static_cast<bool>(cuda_library("cuda"));
    if (has_driver) doctor_line("GPUs", fmt::format("{} ({})", error.message(), error.next_step()));
    reason = has_driver ? "no GPU answers" : "no NVIDIA driver";
  }
  print_cache();
  doctor_line("verdict", reason.empty() ? "--device cuda works here"
                                        : "--device cuda cannot run here: " + reason);
}

}  // namespace ridgeline

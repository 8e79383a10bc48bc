#include "runtime/rank_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

int gpu_count() {
  int count = 0;
  cuda::check(cuda::driver().cuDeviceGetCount(&count), "counting the GPUs");
  return std::max(count, 1);
}

std::unique_ptr<Device> rank_cpu(const RankDeviceOptions& options, int) {
  return std::make_unique<CpuDevice>(CpuOptions{.threads = options.threads});
}

std::unique_ptr<Device> rank_gpu(const RankDeviceOptions& options, int rank_of_host) {
  return std::make_unique<CudaDevice>(
      CudaOptions{.ordinal = (options.first_gpu + rank_of_host) % gpu_count(),
                  .deterministic = options.deterministic});
}

struct RankDevices {
  std::string_view kind;
  std::unique_ptr<Device> (*make)(const RankDeviceOptions&, int rank_of_host);
  int (*count)();  // of this host
};
constexpr RankDevices kRankDevices[] = {
    {"cpu", rank_cpu, [] { return 1; }},
    {"cuda", rank_gpu, gpu_count},
};

const RankDevices& find(const std::string& kind) {
  for (const RankDevices& each : kRankDevices)
    if (each.kind == kind) return each;
  throw Error(ErrorKind::usage, fmt::format("ranks were asked to compute on '{}'", kind),
              "they know 'cpu' and 'cuda'");
}

}  // namespace

std::unique_ptr<Device> make_rank_device(const RankDeviceOptions& options, int rank_of_host) {
  return find(options.kind).make(options, rank_of_host);
}

int ranks_per_device(const DeviceFacts& facts, int ranks_of_host) {
  const int devices = find(facts.kind).count();
  return (ranks_of_host + devices - 1) / devices;
}

}  // namespace ridgeline

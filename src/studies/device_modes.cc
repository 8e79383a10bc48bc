#include "studies/device_modes.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {

Bytes last_cache(const DeviceFacts& facts, const MachineFacts& machine) {
  if (facts.l2_bytes > 0) return Bytes{facts.l2_bytes};
  constexpr Bytes kWhereNoneIsTold{int64_t{64} << 20};
  Bytes largest;
  for (const Cache& cache : machine.caches) largest = std::max(largest, cache.size);
  return largest > Bytes{} ? largest : kWhereNoneIsTold;
}

std::function<void()> cache_flush(Device& device, Bytes cache) {
  if (auto* gpu = dynamic_cast<CudaDevice*>(&device)) return [gpu] { gpu->flush_l2(); };
  auto* cpu = dynamic_cast<CpuDevice*>(&device);
  if (cpu == nullptr)
    throw Error(ErrorKind::unsupported, "no way is known to empty the cache of " + device.name(),
                "measure hot");
  constexpr int64_t kLine = 64;
  auto buffer = std::make_shared<std::vector<char>>(static_cast<size_t>(cache.count));
  return [cpu, buffer] {
    // Line by line, not by memset: large ones go past the cache.
    const int64_t lines = static_cast<int64_t>(buffer->size()) / kLine;
    cpu->pool().for_range(lines, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) ++(*buffer)[static_cast<size_t>(line * kLine)];
    });
  };
}

std::function<void()> captured(Device& device, const std::function<void()>& work) {
  auto* gpu = dynamic_cast<CudaDevice*>(&device);
  if (gpu == nullptr)
    throw Error(ErrorKind::unsupported, "launch graphs are a GPU's; " + device.name() + " has none",
                "measure hot or cold");
  auto graph = std::make_shared<CudaGraph>(gpu->capture(work));
  return [graph] { graph->launch(); };
}

}  // namespace ridgeline

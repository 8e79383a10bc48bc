#include "studies/device_modes.h"

#include <algorithm>

#include "base/error.h"

namespace ridgeline {

Bytes last_cache(const DeviceFacts& facts, const MachineFacts& machine) {
  if (facts.l2_bytes > 0) return Bytes{facts.l2_bytes};
  constexpr Bytes kDefaultCacheBytes{int64_t{64} << 20};
  Bytes largest;
  for (const Cache& cache : machine.caches) largest = std::max(largest, cache.size);
  return largest > Bytes{} ? largest : kDefaultCacheBytes;
}

std::function<void()> captured(Device& device, const std::function<void()>& work) {
  RecordedWork recorded = device.record(work);
  if (!recorded)
    throw Error(ErrorKind::unsupported, "launch graphs are a GPU's; " + device.name() + " has none",
                "measure hot or cold");
  return recorded;
}

}  // namespace ridgeline

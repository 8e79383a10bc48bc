// The strategies of data-parallel training: what is communicated when, and which parts of
// parameters, gradients and moments a rank holds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ridgeline {

enum class ParallelStrategy : uint8_t { naive, flat, overlapped, bucketed, sharded, fsdp };

struct ParallelStrategyInfo {
  ParallelStrategy strategy;
  std::string_view name;
  std::string_view summary;
  bool overlaps = false;           // communicates while backward runs
  bool shards_moments = false;     // a rank updates its shard only
  bool shards_parameters = false;  // a rank holds only its shard of parameters and gradients
};
std::span<const ParallelStrategyInfo> parallel_strategies();  // in the order of the enumerators
const ParallelStrategyInfo& info(ParallelStrategy strategy);
ParallelStrategy parse_parallel_strategy(std::string_view name);  // throws a usage error

// The size from which bucket `number` takes no further gradient. The first bucket is smaller, so
// that communication starts early, unless there is no cap (infinite).
double bucket_cap(size_t number, double asked_bytes);

}  // namespace ridgeline

// How ranks that each have a part of the batch keep one model: what is communicated when, and what
// each rank holds of parameters, gradients and moments.
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
  bool shards_moments = false;     // a rank updates its shard alone
  bool shards_parameters = false;  // and has no more of parameters and gradients than that
};
std::span<const ParallelStrategyInfo> parallel_strategies();  // in the order of the enumerators
const ParallelStrategyInfo& info(ParallelStrategy strategy);
ParallelStrategy parse_parallel_strategy(std::string_view name);  // throws a usage error

// Bytes from which on a bucket takes no further gradient. The first one closes early, so that
// communication begins; without a cap (infinite) all gradients are in it.
double bucket_cap(size_t number, double asked_bytes);

}  // namespace ridgeline

#include "cost/parallel_strategy.h"

#include <algorithm>
#include <cmath>

#include "base/closest.h"

namespace ridgeline {
namespace {

constexpr ParallelStrategyInfo kStrategies[] = {
    {.strategy = ParallelStrategy::naive,
     .name = "naive",
     .summary = "an all-reduce of each gradient, after backward"},
    {.strategy = ParallelStrategy::flat,
     .name = "flat",
     .summary = "one all-reduce of all gradients, after backward"},
    {.strategy = ParallelStrategy::overlapped,
     .name = "overlapped",
     .summary = "an all-reduce of each gradient as soon as it is there",
     .overlaps = true},
    {.strategy = ParallelStrategy::bucketed,
     .name = "bucketed",
     .summary = "an all-reduce of each bucket of gradients as soon as it is full",
     .overlaps = true},
    {.strategy = ParallelStrategy::sharded,
     .name = "sharded",
     .summary = "reduce-scatter, each rank updates its shard, all-gather of parameters",
     .overlaps = true,
     .shards_moments = true},
    {.strategy = ParallelStrategy::fsdp,
     .name = "fsdp",
     .summary = "parameters are sharded too, and gathered layer by layer while others compute",
     .overlaps = true,
     .shards_moments = true,
     .shards_parameters = true},
};

constexpr double kFirstBucketBytes = 1e6;

}  // namespace

std::span<const ParallelStrategyInfo> parallel_strategies() {
  return kStrategies;
}

const ParallelStrategyInfo& info(ParallelStrategy strategy) {
  return kStrategies[static_cast<size_t>(strategy)];
}

double bucket_cap(size_t number, double asked_bytes) {
  return number > 0 || std::isinf(asked_bytes) ? asked_bytes
                                               : std::min(asked_bytes, kFirstBucketBytes);
}

ParallelStrategy parse_parallel_strategy(std::string_view name) {
  return find_named(kStrategies, name, "a strategy").strategy;
}

}  // namespace ridgeline

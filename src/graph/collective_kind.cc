#include "graph/collective_kind.h"

#include <algorithm>

#include "base/closest.h"

namespace ridgeline {
namespace {

constexpr CollectiveInfo kCollectives[] = {
    {CollectiveKind::all_reduce, "all-reduce", "every rank gets the sum of all buffers"},
    {CollectiveKind::reduce_scatter, "reduce-scatter", "every rank gets its shard of the sum"},
    {CollectiveKind::all_gather, "all-gather", "every rank gets the shards of all"},
    {CollectiveKind::broadcast, "broadcast", "every rank gets the buffer of rank 0"},
};

}  // namespace

std::span<const CollectiveInfo> collective_kinds() {
  return kCollectives;
}

std::string_view name(CollectiveKind kind) {
  for (const CollectiveInfo& row : kCollectives)
    if (row.kind == kind) return row.name;
  return "barrier";
}

CollectiveKind parse_collective(std::string_view name) {
  return find_named(kCollectives, name, "a collective").kind;
}

CollectiveKind collective_kind(Op op) {
  return op == Op::all_reduce       ? CollectiveKind::all_reduce
         : op == Op::reduce_scatter ? CollectiveKind::reduce_scatter
                                    : CollectiveKind::all_gather;
}

Shard shard_of(int64_t count, int rank, int ranks) {
  const int64_t each = (count + ranks - 1) / ranks;
  const int64_t begin = std::min(count, each * rank);
  return {begin, std::min(count, begin + each) - begin};
}

double bus_factor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
      return (n - 1) / n;
    case CollectiveKind::broadcast:
    case CollectiveKind::barrier:
      return 1;
  }
  return 1;
}

}  // namespace ridgeline

// The kinds of collectives by name, and how buffers are sharded over ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/op.h"

namespace ridgeline {

enum class CollectiveKind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, barrier };

struct CollectiveInfo {
  CollectiveKind kind;
  std::string_view name;  // as users write it: "all-reduce"
  std::string_view summary;
};
std::span<const CollectiveInfo> collective_kinds();  // those that move data
std::string_view name(CollectiveKind kind);
CollectiveKind parse_collective(std::string_view name);  // throws a usage error
CollectiveKind collective_kind(Op op);                   // of a collective op

// A part of a buffer, in elements.
struct Shard {
  int64_t begin = 0, count = 0;
};
// Shards of ceil(count / ranks) elements; the last ones are shorter, or empty. A buffer padded to a
// multiple of the ranks has equal shards, which NCCL needs.
Shard shard_of(int64_t count, int rank, int ranks);

// Bytes that a rank must send for each byte of the buffer, by the convention of nccl-tests: bus
// bandwidth = bytes / time x this factor, whatever the number of ranks.
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace ridgeline

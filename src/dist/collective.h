// What ranks do together: the kinds of collectives, one of them as a value, and how buffers are cut
// among ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "graph/dtype.h"

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

// A part of a buffer, in elements.
struct Shard {
  int64_t begin = 0, count = 0;
};
// Equal cuts of ceil(count / ranks) elements; the last ones are shorter, or empty. A buffer that is
// padded to a multiple of the ranks has equal shards, as NCCL needs them.
Shard shard_of(int64_t count, int rank, int ranks);

// One collective of one rank, on plain pointers of the device that the communicator serves.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::f32;
  int64_t count = 0;  // elements of the whole buffer, also where a rank has a shard of it
  // all_reduce: `count` elements each, and `in` may be `out`.
  // reduce_scatter: `in` is whole, `out` is this rank's shard, which may be the one within `in`.
  // all_gather: `in` is this rank's shard, which may be the one within `out`; `out` is whole.
  // broadcast: `in` counts on the root alone, and may be `out`.
  const void* in = nullptr;
  void* out = nullptr;
  int root = 0;
  std::string name = {};  // in messages: "bucket 7"

  int64_t bytes() const { return count * info(dtype).size; }
};
std::string describe(const Collective& what);  // "all-reduce of 25.0 MiB in fp32 (bucket 7)"

// Bytes that a rank must send for each byte of the buffer, by the convention of nccl-tests:
// bus bandwidth = bytes / time x this factor, whatever the number of ranks.
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace ridgeline

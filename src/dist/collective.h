// Describes one collective of one rank.
#pragma once

#include <cstdint>
#include <string>

#include "graph/collective_kind.h"
#include "graph/dtype.h"

namespace ridgeline {

// The pointers are those of the device that the communicator serves.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::f32;
  int64_t count = 0;  // elements of the whole buffer, even where a rank has a shard of it
  // all_reduce: both have `count` elements; `in` may be `out`.
  // reduce_scatter: `in` is whole, `out` is this rank's shard and may lie at its place in `in`.
  // all_gather: `in` is this rank's shard and may lie at its place in `out`, which is whole.
  // broadcast: `in` is read on the root only, and may be `out`.
  const void* in = nullptr;
  void* out = nullptr;
  int root = 0;
  std::string name = {};  // in messages: "bucket 7"

  int64_t bytes() const { return count * info(dtype).size; }
};
std::string describe(const Collective& what);  // "all-reduce of 25.0 MiB in fp32 (bucket 7)"

}  // namespace ridgeline

// One collective as a value: what a rank hands to its communicator.
#pragma once

#include <cstdint>
#include <string>

#include "graph/collective_kind.h"
#include "graph/dtype.h"

namespace ridgeline {

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

}  // namespace ridgeline

// Concatenates tensors along an axis, in the order of the result.
//
// Constants: TYPE, PACK (elements of an item), OUTER_AXES and INNER_AXES (of the walks before and after the axis),
// INDEX (type that counts items).
#include "groups.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kItems = 4;  // per thread, so that their loads are in flight together
constexpr int kThreads = 256;

__device__ __forceinline__ const TYPE* source_of(const ConcatParams& p, INDEX item) {
  const INDEX rest = item / static_cast<INDEX>(p.inner);
  const INDEX inner = item - rest * static_cast<INDEX>(p.inner);
  const INDEX outer = rest / static_cast<INDEX>(p.axis_size);
  const int along = static_cast<int>(rest - outer * static_cast<INDEX>(p.axis_size));
  int part = 0;
  while (along >= p.parts[part].end) ++part;
  const auto& from = p.parts[part];
  return static_cast<const TYPE*>(from.data) + (along - from.begin) * from.axis_step +
         walk_offset<OUTER_AXES>(outer, p.outer_sizes, from.outer_steps) +
         walk_offset<INNER_AXES>(inner, p.inner_sizes, from.inner_steps);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    concat(const __grid_constant__ ConcatParams p) {
  wait_for_earlier_kernels();
  const INDEX items = static_cast<INDEX>(p.items);
  const INDEX first = static_cast<INDEX>(blockIdx.x) * (kThreads * kItems) + threadIdx.x;
  Pack<TYPE, PACK> packs[kItems];
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const INDEX item = first + i * kThreads;
    if (item < items) packs[i] = load_pack<PACK>(source_of(p, item));
  }
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    const INDEX item = first + i * kThreads;
    if (item < items)
      store_pack(static_cast<TYPE*>(p.out) + static_cast<int64>(item) * PACK, packs[i]);
  }
}

}  // namespace ridgeline

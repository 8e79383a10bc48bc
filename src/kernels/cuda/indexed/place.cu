// The gradient of pick: rows of zeros with one value each.
//
// Constants: TYPE, PACK (elements of one access), THREADS (of a block).
#include "indexed.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS) place(const __grid_constant__ PlaceParams p) {
  wait_for_earlier_kernels();
  const int64 item = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
  const int64 packs = p.width / PACK;
  const int64 row = item / packs;
  if (row >= p.count) return;
  const int64 column = (item - row * packs) * PACK;
  const int index = p.indices[row * p.index_step];
  const bool outside = index < 0 || index >= p.width;
  Pack<TYPE, PACK> pack;
#pragma unroll
  for (int i = 0; i < PACK; ++i) {
    pack.at[i] = outside ? nothing<TYPE>() : Narrow<TYPE>::from(0);
    if (index == column + i) pack.at[i] = static_cast<const TYPE*>(p.values)[row * p.value_step];
  }
  store_pack(static_cast<TYPE*>(p.out) + row * p.width + column, pack);
}

}  // namespace ridgeline

// Rows of a table by index: each thread copies a pack of columns.
//
// Constants: TYPE, PACK (elements of one access), THREADS (of a block).
#include "indexed.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    gather(const __grid_constant__ GatherParams p) {
  wait_for_earlier_kernels();
  const int64 item = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
  const int64 packs = p.width / PACK;
  const int64 row = item / packs;
  if (row >= p.count) return;
  const int64 column = (item - row * packs) * PACK;
  const int index = p.indices[row * p.index_step];
  Pack<TYPE, PACK> pack;
  if (index >= 0 && index < p.rows) {
    const TYPE* table = static_cast<const TYPE*>(p.table);
    pack = load_pack<PACK>(table + index * p.row_step + column * p.column_step);
  } else {
#pragma unroll
    for (int i = 0; i < PACK; ++i) pack.at[i] = nothing<TYPE>();
  }
  store_pack(static_cast<TYPE*>(p.out) + row * p.width + column, pack);
}

}  // namespace ridgeline

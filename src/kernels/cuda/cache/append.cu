// Stores rows in a cache, each in the slot of its position: a thread copies a pack of columns.
//
// Constants: TYPE, PACK (elements of one access), AXES (before the rows), THREADS (of a block).
#include "groups.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    append(const __grid_constant__ AppendParams p) {
  wait_for_earlier_kernels();
  const int64 item = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
  if (item >= p.items) return;
  const int64 row_item = item / p.packs, column = (item - row_item * p.packs) * PACK;
  const int64 outer = row_item / p.stored;
  const int64 row = p.count - p.stored + (row_item - outer * p.stored);
  const int64 slot = static_cast<int64>((static_cast<unsigned>(*p.position) + row) % p.slots);
  const TYPE* from = static_cast<const TYPE*>(p.rows) +
                     walk_offset<AXES>(outer, p.outer_sizes, p.outer_steps) + row * p.row_step +
                     column * p.column_step;
  TYPE* to = static_cast<TYPE*>(p.cache) + (outer * p.slots + slot) * (p.packs * PACK) + column;
  store_pack(to, load_pack<PACK>(from));
}

}  // namespace ridgeline

// One element of each row, by index.
//
// Constants: TYPE, THREADS (of a block).
#include "indexed.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS) pick(const __grid_constant__ PickParams p) {
  wait_for_earlier_kernels();
  const int64 row = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
  if (row >= p.count) return;
  const int index = p.indices[row * p.index_step];
  const TYPE* x = static_cast<const TYPE*>(p.x) + row * p.row_step;
  const bool inside = index >= 0 && index < p.width;
  static_cast<TYPE*>(p.out)[row] = inside ? x[index * p.column_step] : nothing<TYPE>();
}

}  // namespace ridgeline

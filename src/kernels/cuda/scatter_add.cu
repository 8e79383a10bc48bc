// The gradient of gather. A block owns COLUMNS x THREADS columns of one row of the table, looks
// through all indices for its row and adds what it finds in their order: no atomics, and the same
// bits from run to run.
//
// Constants: TYPE, THREADS (of a block), COLUMNS (of a thread).
#include "indexed.cuh"

namespace ridgeline {

constexpr int kLooks = 4;  // indices that a thread looks at before the block compares notes
constexpr int kBatch = kLooks * THREADS;

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter_add(const __grid_constant__ ScatterAddParams p) {
  __shared__ int found[kBatch];
  __shared__ int found_count;
  const int row = blockIdx.x;
  const int64 first_column = static_cast<int64>(blockIdx.y) * (THREADS * COLUMNS) + threadIdx.x;
  const TYPE* updates = static_cast<const TYPE*>(p.updates);
  float total[COLUMNS] = {};
  for (int64 batch = 0; batch < p.count; batch += kBatch) {
    const int count = static_cast<int>(p.count - batch < kBatch ? p.count - batch : kBatch);
    bool mine = false;
#pragma unroll
    for (int look = 0; look < kLooks; ++look) {
      const int at = look * THREADS + threadIdx.x;
      if (at < count) mine = mine || p.indices[(batch + at) * p.index_step] == row;
    }
    if (!__syncthreads_or(mine)) continue;  // most rows of a large table have none
    if (threadIdx.x < 32) {
      int before = 0;
      for (int begin = 0; begin < count; begin += 32) {
        const int at = begin + threadIdx.x;
        const bool here = at < count && p.indices[(batch + at) * p.index_step] == row;
        const unsigned all = __ballot_sync(0xffffffffu, here);
        if (here) found[before + __popc(all & ((1u << threadIdx.x) - 1))] = at;
        before += __popc(all);
      }
      if (threadIdx.x == 0) found_count = before;
    }
    __syncthreads();
    for (int i = 0; i < found_count; ++i) {
      const TYPE* from = updates + (batch + found[i]) * p.row_step;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        const int64 column = first_column + c * THREADS;
        if (column < p.width) total[c] += widen(from[column * p.column_step]);
      }
    }
    __syncthreads();
  }
  TYPE* out = static_cast<TYPE*>(p.out) + row * p.width;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    const int64 column = first_column + c * THREADS;
    if (column < p.width) out[column] = Narrow<TYPE>::from(total[c]);
  }
}

}  // namespace ridgeline

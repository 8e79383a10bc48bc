// The gradient of gather. A block owns COLUMNS x THREADS columns of one row of the table, searches all indices for its
// row and adds the updates that it finds in their order: no atomics, and the same bits in every run.
//
// Constants: TYPE, THREADS (of a block), COLUMNS (of a thread).
#include "indexed.cuh"

namespace ridgeline {

constexpr int kLooks = 16;  // indices that a thread compares before the block collects the matches
constexpr int kBatch = kLooks * THREADS;
constexpr int kWarps = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter_add(const __grid_constant__ ScatterAddParams p) {
  wait_for_earlier_kernels();
  __shared__ int found[kBatch];
  __shared__ int found_by[kWarps];
  const int row = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64 first_column = static_cast<int64>(blockIdx.y) * (THREADS * COLUMNS) + threadIdx.x;
  const TYPE* updates = static_cast<const TYPE*>(p.updates);
  float total[COLUMNS] = {};
  for (int64 batch = 0; batch < p.count; batch += kBatch) {
    // Each warp has a contiguous range of the indices, so that matches are collected in order.
    const int count = static_cast<int>(p.count - batch < kBatch ? p.count - batch : kBatch);
    const int first = warp * kLooks * 32;
    unsigned hits[kLooks];
    int mine = 0;
#pragma unroll
    for (int look = 0; look < kLooks; ++look) {
      const int at = first + look * 32 + lane;
      hits[look] = __ballot_sync(~0u, at < count && p.indices[(batch + at) * p.index_step] == row);
      mine += __popc(hits[look]);
    }
    if (lane == 0) found_by[warp] = mine;
    if (!__syncthreads_or(mine)) continue;  // as for most rows of a large table
    int place = 0, found_count = 0;
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      if (other < warp) place += found_by[other];
      found_count += found_by[other];
    }
    if (mine > 0)
#pragma unroll
      for (int look = 0; look < kLooks; ++look) {
        if (hits[look] >> lane & 1) found[place + __popc(hits[look] & ((1u << lane) - 1))] = first + look * 32 + lane;
        place += __popc(hits[look]);
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

// Joins the splits of attention over a cache by their log-sum-exp: a block for each row, a thread
// for each column.
//
// Constants: TYPE, WIDTH (of a head), ROWS (of a tile), THREADS.
#include "cached_attention.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    cached_attention_parts(const __grid_constant__ CachedAttentionParams p) {
  wait_for_earlier_kernels();
  const unsigned number = blockIdx.x / ROWS, r = blockIdx.x % ROWS;
  const CachedTile tile(p, number);
  const int row = tile.first_row + static_cast<int>(r), column = threadIdx.x;
  if (row >= p.rows || column >= WIDTH) return;
  const float* stats = p.stats + (static_cast<int64>(number) * p.splits * ROWS + r) * 2;
  const float* parts = p.parts + (static_cast<int64>(number) * p.splits * ROWS + r) * WIDTH;
  float largest = -infinity(), total = 0.0f, sum = 0.0f;
  for (int split = 0; split < p.splits; ++split) largest = fmaxf(largest, stats[split * ROWS * 2]);
  const float base = largest == -infinity() ? 0.0f : largest;
#pragma unroll 8
  for (int split = 0; split < p.splits; ++split) {
    const float of_split = stats[split * ROWS * 2 + 1];
    if (of_split == 0.0f) continue;  // nothing was written there
    const float factor = exp2f(stats[split * ROWS * 2] - base);
    total += factor * of_split;
    sum += factor * parts[static_cast<int64>(split) * ROWS * WIDTH + column];
  }
  write_result<TYPE>(p, tile, row, column, largest, total, sum);
}

}  // namespace ridgeline

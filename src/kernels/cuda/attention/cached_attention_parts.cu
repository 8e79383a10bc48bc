// Combines the splits of attention over a cache by their log-sum-exp: one block per row, one thread per column. Every
// warp computes the factors of all splits, a lane those of two.
//
// Constants: TYPE, WIDTH (of a head), ROWS (of a tile), THREADS.
#include "cached_attention.cuh"

namespace ridgeline {

constexpr int kOfALane = 2;  // splits; there are at most 64

extern "C" __global__ void __launch_bounds__(THREADS)
    cached_attention_parts(const __grid_constant__ CachedAttentionParams p) {
  wait_for_earlier_kernels();
  const unsigned number = blockIdx.x / ROWS, r = blockIdx.x % ROWS;
  const CachedTile tile(p, number);
  const int row = tile.first_row + static_cast<int>(r), column = threadIdx.x;
  if (row >= p.rows) return;
  const CachedTile::Span span = tile.span(p, *p.position);
  const int splits = (span.end - span.begin + span.of_split - 1) / span.of_split;  // that have positions
  const float* stats = p.stats + (static_cast<int64>(number) * p.splits * ROWS + r) * 2;
  const float* parts = p.parts + (static_cast<int64>(number) * p.splits * ROWS + r) * WIDTH;

  const int lane = threadIdx.x % 32;
  float exponents[kOfALane], totals[kOfALane], largest = -infinity();
#pragma unroll
  for (int i = 0; i < kOfALane; ++i) {
    const int split = i * 32 + lane;
    exponents[i] = split < splits ? stats[split * ROWS * 2] : -infinity();
    totals[i] = split < splits ? stats[split * ROWS * 2 + 1] : 0.0f;
    largest = fmaxf(largest, exponents[i]);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
  const float base = largest == -infinity() ? 0.0f : largest;
  float factors[kOfALane], total = 0.0f;
#pragma unroll
  for (int i = 0; i < kOfALane; ++i) {
    factors[i] = exp2f(exponents[i] - base);
    total += factors[i] * totals[i];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    total += __shfl_xor_sync(0xffffffffu, total, distance);

  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kOfALane; ++i) {
#pragma unroll 8
    for (int split = i * 32; split < min(splits, i * 32 + 32); ++split) {
      const float factor = __shfl_sync(0xffffffffu, factors[i], split % 32);
      if (column < WIDTH) sum += factor * parts[static_cast<int64>(split) * ROWS * WIDTH + column];
    }
  }
  if (column < WIDTH) write_result<TYPE>(p, tile, row, column, largest, total, sum);
}

}  // namespace ridgeline

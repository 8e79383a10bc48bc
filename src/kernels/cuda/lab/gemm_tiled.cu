// A matrix product in tiles: a block keeps slices of a and b in shared memory, a thread a square of sums in registers.
// Plain multiply-adds, no tensor cores.
//
// Constants: TYPE, TILE (rows and columns of a block's results), PACK (elements of one access).
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kSide = 16;            // threads along each side of a tile
constexpr int kSums = TILE / kSide;  // along each side of a thread's square
constexpr int kDepth = 16;           // of a slice
constexpr int kThreads = kSide * kSide;
constexpr int kPadding = 4;  // avoids bank conflicts when a column is written

// Loads PACK elements of a row of `width` as fp32; zeros beyond the ends.
__device__ __forceinline__ void load(const void* matrix, int64 row, int64 rows, int64 column,
                                     int64 width, float (&to)[PACK]) {
  if (row < rows && column < width) {
    const auto pack = load_pack<PACK>(static_cast<const TYPE*>(matrix) + row * width + column);
#pragma unroll
    for (int i = 0; i < PACK; ++i) to[i] = widen(pack.at[i]);
  } else {
#pragma unroll
    for (int i = 0; i < PACK; ++i) to[i] = 0;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gemm_tiled(const __grid_constant__ GemmParams p) {
  wait_for_earlier_kernels();
  __shared__ float a[kDepth][TILE + kPadding];  // transposed: a step of the depth is a row
  __shared__ float b[kDepth][TILE + kPadding];
  const int64 first_row = blockIdx.x / p.blocks_across * TILE;
  const int64 first_column = blockIdx.x % p.blocks_across * TILE;
  const int down = threadIdx.x / kSide, across = threadIdx.x % kSide;
  float sums[kSums][kSums] = {};
  for (int64 depth = 0; depth < p.k; depth += kDepth) {
    float pack[PACK];
    for (int i = threadIdx.x * PACK; i < TILE * kDepth; i += kThreads * PACK) {
      const int row = i / kDepth, step = i % kDepth;
      load(p.a, first_row + row, p.m, depth + step, p.k, pack);
#pragma unroll
      for (int at = 0; at < PACK; ++at) a[step + at][row] = pack[at];
    }
    for (int i = threadIdx.x * PACK; i < TILE * kDepth; i += kThreads * PACK) {
      const int step = i / TILE, column = i % TILE;
      load(p.b, depth + step, p.k, first_column + column, p.n, pack);
#pragma unroll
      for (int at = 0; at < PACK; ++at) b[step][column + at] = pack[at];
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kDepth; ++step) {
      float left[kSums], right[kSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        left[i] = a[step][down + i * kSide];
        right[i] = b[step][across + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kSums; ++i)
#pragma unroll
        for (int j = 0; j < kSums; ++j) sums[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i)
#pragma unroll
    for (int j = 0; j < kSums; ++j) {
      const int64 row = first_row + down + i * kSide, column = first_column + across + j * kSide;
      if (row < p.m && column < p.n)
        static_cast<TYPE*>(p.out)[row * p.n + column] = Narrow<TYPE>::from(sums[i][j]);
    }
}

}  // namespace ridgeline

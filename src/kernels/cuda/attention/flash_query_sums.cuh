// How the single-pass backward adds up dQ: in fp32, in the order in which registers hold it, so that a thread adds 16
// bytes at a time; by atomics where several blocks add to a sum. The sums are converted to rows at the end.
//
// A tile of dQ consists of blocks of 16 rows, each a row of adjacent accumulators of 8 columns.
#pragma once

#include "fragments.cuh"

namespace ridgeline {

constexpr int kSumTiles = kHeadDim / 8;  // accumulators of 16 rows

// The offset, within a tile, of the sums of the accumulator at `row` and `column`.
__device__ __forceinline__ int place_of_sum(int row, int column) { return (row / 16 * kSumTiles + column / 8) * 128; }

__device__ __forceinline__ void add_atomically(float* to, const Accumulator& x) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(x.v[0]),
               "f"(x.v[1]), "f"(x.v[2]), "f"(x.v[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i)
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to + i), "f"(x.v[i]) : "memory");
#endif
}

// Adds the first kCount accumulators of a warp, which are adjacent.
template <int kCount, int kTiles>
__device__ __forceinline__ void add_row(float* to, const Accumulator (&sums)[kTiles]) {
#pragma unroll
  for (int n = 0; n < kCount; ++n) add_atomically(to + 128 * n + 4 * lane(), sums[n]);
}

// Loads the first kCount accumulators of a warp, which are adjacent, if they are wanted; all others are 0.
template <int kCount, int kTiles>
__device__ __forceinline__ void load_sums(Accumulator (&sums)[kTiles], const float* from, bool wanted) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float4 sum = make_float4(0, 0, 0, 0);
    if (n < kCount && wanted) sum = __ldcg(reinterpret_cast<const float4*>(from + 128 * n) + lane());
    sums[n] = {sum.x, sum.y, sum.z, sum.w};
  }
}

// For mma.sync: a tile is divided into units of (16 kM) x 16, of which each warp owns consecutive ones.
template <int kQueries, int kWarps>
struct QuerySums {
  static constexpr int kM = kQueries % 32 == 0 ? 2 : 1;
  static constexpr int kUnitColumns = kHeadDim / 16;
  static constexpr int kUnits = kQueries / (16 * kM) * kUnitColumns;
  static constexpr int kOwn = (kUnits + kWarps - 1) / kWarps;
  static constexpr bool kOneRow = kUnitColumns % kOwn == 0;  // a warp's units are side by side
  Accumulator sums[kOwn][kM][2] = {};

  __device__ __forceinline__ static int unit(int i) { return warp() * kOwn + i; }
  __device__ __forceinline__ static int row(int i) { return unit(i) / kUnitColumns * 16 * kM; }
  __device__ __forceinline__ static int column(int i) { return unit(i) % kUnitColumns * 16; }
  __device__ __forceinline__ static bool active(int i) {
    return (kUnits % kOwn == 0 && kUnits / kOwn == kWarps) || unit(i) < kUnits;
  }

  // d_scores is keys x queries; factor(row, key) returns the factor of the planes of that row and those 16 keys.
  template <int kKeys, class Factor>
  __device__ __forceinline__ void multiply_all(Tile<Element, kQueries> d_scores, Rows keys, Factor factor) {
#pragma unroll
    for (int k = 0; k < kKeys; k += kStep) {
      FragmentA<Element> a[kM];
      float f[kM] = {};
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        if (!active(i)) continue;
        if (i == 0 || !kOneRow)
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            a[m] = load_a_transposed(d_scores, k, row(i) + 16 * m);
            if constexpr (!kIs16Bit) f[m] = factor(row(i) + 16 * m, k);
          }
        FragmentB<Element> b[2];
        load_b_pair_transposed(b, keys, k, column(i));
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            if constexpr (kIs16Bit) {
              multiply(sums[i][m][half], a[m], b[half]);
            } else {
              Accumulator part = {};
              multiply(part, a[m], b[half]);
#pragma unroll
              for (int j = 0; j < 4; ++j) sums[i][m][half].v[j] += part.v[j] * f[m];
            }
          }
      }
    }
  }

  __device__ __forceinline__ void add_to(float* tile) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (!active(i)) continue;
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          add_atomically(tile + place_of_sum(row(i) + 16 * m, column(i) + 8 * half) + lane() * 4, sums[i][m][half]);
    }
  }
};

}  // namespace ridgeline

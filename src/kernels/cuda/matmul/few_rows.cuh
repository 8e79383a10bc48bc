// Products of few rows: out[m][n] = sum over k of x[m][k] w[n][k]. Every weight is read once, from memory into
// registers, and where nobody writes weights (KEPT) the first are on their way before the kernel that computes x ends.
//
// A warp multiplies 32 rows of w by up to 8 TILES rows of x over a part of the columns; of more rows of x, blocks along
// the grid's other axis have 8 TILES each, and find the weights in the last cache. Sums do not depend on the order
// of columns as long as w and x have the same: a lane reads 8 neighbours of a row at once and takes them for the
// columns that a fragment of mma.m16n8k16 wants of it. Warps and then the blocks of a cluster add up their parts.
//
// With PREPARES, generated text before this one computes x, in every block, into rows of X_PITCH bytes of shared
// memory. With PAIRS, it makes one number of rows n and n + rows / 2 of w: a block has 16 rows of each half.
#pragma once

#include "cluster.cuh"
#include "elements.cuh"
#include "merged.cuh"
#include "params.h"

namespace ridgeline {
namespace {

constexpr int kRows = 32;               // of w that a block has at a time
constexpr int kTokens = 8 * TILES;      // rows of x
constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kStep = 32;               // columns of w that four lanes read at once
// Steps whose numbers are on their way, as registers allow.
constexpr int kAhead = TILES > 2 ? 2 : PREPARES || TILES == 2 ? 3 : 4;
constexpr int kWritten = PAIRS ? kRows / 2 : kRows;  // of each row of `out`
constexpr int kOutputs = kRows * kTokens, kResults = kWritten * kTokens;
constexpr int kOfABlock = (kResults + SPLITS - 1) / SPLITS;

struct Weights {
  uint4 rows[4];  // lane / 4 and every eighth row behind it
};

__device__ __forceinline__ uint4 load_once(const void* from) {
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}

__device__ __forceinline__ void multiply(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                         unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32." MMA_TYPE "." MMA_TYPE
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace

extern "C" __global__ void
#if SPLITS > 1
    __cluster_dims__(SPLITS, 1, 1)
#endif
    __launch_bounds__(kThreads, 2) MERGED_KERNEL(const __grid_constant__ FewRowsParams p) {
  __shared__ float parts[kWarps][kOutputs];
#if PREPARES
  extern __shared__ __align__(16) char x_rows[];
#endif
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int split = blockIdx.x % SPLITS;
  const int first_token = PREPARES ? 0 : static_cast<int>(blockIdx.y) * kTokens;
  const int steps = p.columns / kStep, worker = split * kWarps + warp;
  const int begin = steps * worker / (SPLITS * kWarps), end = steps * (worker + 1) / (SPLITS * kWarps);
  const int written = PAIRS ? p.rows / 2 : p.rows;  // of a row of `out`
  const int tiles = (written + kWritten - 1) / kWritten, tiles_at_once = gridDim.x / SPLITS;

  const TYPE* weights[4];
  Weights ahead[kAhead];
  const auto load_weights = [&](int i, int step) {
#pragma unroll
    for (int row = 0; row < 4; ++row) ahead[i].rows[row] = load_once(weights[row] + step * kStep);
  };
  const auto begin_tile = [&](int tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = tile * kWritten + lane / 4 + 8 * (PAIRS ? i % 2 : i), last = written - 1;
      weights[i] = static_cast<const TYPE*>(p.w) +
                   ((row < last ? row : last) + (PAIRS ? i / 2 * written : 0)) * p.w_stride + lane % 4 * 8;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (begin + i < end) load_weights(i, begin + i);
  };
  int tile = static_cast<int>(blockIdx.x) / SPLITS;
#if PREPARES
  prefetch_kept<kThreads>(p.memory, p.kept_bytes);
#endif
#if KEPT
  begin_tile(tile);
  wait_for_earlier_kernels();
#else
  wait_for_earlier_kernels();
  begin_tile(tile);
#endif
#if PREPARES
  prepare_x(p, x_rows, blockIdx.x == 0);
  __syncthreads();
  const char* x_row = x_rows + lane / 4 * X_PITCH + lane % 4 * 16;
#else
  uint4 x[kAhead][TILES];
  const auto load_x = [&](int i, int step) {
#pragma unroll
    for (int of_x = 0; of_x < TILES; ++of_x) {
      const int token = first_token + 8 * of_x + lane / 4;
      x[i][of_x] = make_uint4(0, 0, 0, 0);
      if (token < p.tokens)
        x[i][of_x] = *reinterpret_cast<const uint4*>(static_cast<const TYPE*>(p.x) + token * p.x_stride +
                                                     step * kStep + lane % 4 * 8);
    }
  };
#endif

  TYPE* out = static_cast<TYPE*>(p.out);
  const auto store = [&](int result, float value, float of_other_half) {
    const int token = first_token + result / kWritten, row = tile * kWritten + result % kWritten;
    if (token >= p.tokens || row >= written) return;
#if PAIRS
    value = of_pair(widen(Narrow<TYPE>::from(value)), widen(Narrow<TYPE>::from(of_other_half)));
#endif
    out[token * p.out_stride + row] = Narrow<TYPE>::from(value);
  };
  // Where a result, or the other half of its pair, is among the sums of a warp.
  const auto place = [](int result) { return result / kWritten * kRows + result % kWritten; };

#pragma unroll 1
  while (true) {
#if !PREPARES
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (begin + i < end) load_x(i, begin + i);
#endif
    float sums[2][TILES][4] = {};
#pragma unroll 1
    for (int step = begin; step < end; step += kAhead) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (step + i >= end) break;
        const uint4(&w)[4] = ahead[i].rows;
#pragma unroll
        for (int of_x = 0; of_x < TILES; ++of_x) {
#if PREPARES
          const uint4 b = *reinterpret_cast<const uint4*>(x_row + of_x * 8 * X_PITCH + (step + i) * (2 * kStep));
#else
          const uint4& b = x[i][of_x];
#endif
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            multiply(sums[half][of_x], w[2 * half].x, w[2 * half + 1].x, w[2 * half].y, w[2 * half + 1].y, b.x, b.y);
            multiply(sums[half][of_x], w[2 * half].z, w[2 * half + 1].z, w[2 * half].w, w[2 * half + 1].w, b.z, b.w);
          }
        }
        if (step + i + kAhead < end) {
          load_weights(i, step + i + kAhead);
#if !PREPARES
          load_x(i, step + i + kAhead);
#endif
        }
      }
    }
    const int next = tile + tiles_at_once;
    if (next < tiles) begin_tile(next);  // on their way while sums are joined

#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int of_x = 0; of_x < TILES; ++of_x)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = 16 * half + lane / 4 + i / 2 * 8, token = 8 * of_x + lane % 4 * 2 + i % 2;
          parts[warp][token * kRows + row] = sums[half][of_x][i];
        }
    __syncthreads();
    const auto sum_of = [&](int output) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kWarps; ++i) sum += parts[i][output];
      return sum;
    };
#if SPLITS == 1
#pragma unroll
    for (int result = threadIdx.x; result < kResults; result += kThreads)
      store(result, sum_of(place(result)), PAIRS ? sum_of(place(result) + kRows / 2) : 0.0f);
#else
#pragma unroll
    for (int output = threadIdx.x; output < kOutputs; output += kThreads) parts[0][output] = sum_of(output);
    meet_cluster();
    const auto total_of = [&](int output) {
      float sum = 0;
#pragma unroll
      for (int rank = 0; rank < SPLITS; ++rank) sum += load_from(&parts[0][output], rank);
      return sum;
    };
    for (int i = threadIdx.x; i < kOfABlock && split * kOfABlock + i < kResults; i += kThreads) {
      const int result = split * kOfABlock + i;
      store(result, total_of(place(result)), PAIRS ? total_of(place(result) + kRows / 2) : 0.0f);
    }
    meet_cluster();  // nobody's memory goes before all have read it
#endif
    if (next >= tiles) break;
    tile = next;
#if SPLITS == 1
    __syncthreads();  // before the next sums take the place of these
#endif
  }
}

}  // namespace ridgeline

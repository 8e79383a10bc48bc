// Products of few rows: out[m][n] = sum over k of x[m][k] w[n][k]. Every weight is read once, from memory into
// registers, and with KEPT the first loads are issued before the kernel that computes x ends.
//
// A warp multiplies 32 rows of w by up to 8 TILES rows of x over a part of the columns; further rows of x go to blocks
// along y, which find the weights in the L2 cache. Sums do not depend on the order of columns as long as w and x have
// the same: a lane loads 8 adjacent elements of a row and uses them as the columns that mma.m16n8k16 expects from it.
// Warps, and then the blocks of a cluster, add up their parts.
//
// Constants: TYPE, MMA_TYPE (its name in PTX), TILES, SPLITS (blocks of a cluster), KEPT (1: weights do not change).
#include "cluster.cuh"
#include "elements.cuh"
#include "params.h"

namespace ridgeline {
namespace {

constexpr int kRows = 32;               // of w, in a block
constexpr int kTokens = 8 * TILES;      // rows of x, in a block
constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kStep = 32;               // columns that four lanes read at once
// Steps that are loaded ahead, as registers allow.
constexpr int kAhead = TILES > 2 ? 2 : TILES == 2 ? 3 : 4;
constexpr int kOutputs = kRows * kTokens, kOfABlock = (kOutputs + SPLITS - 1) / SPLITS;

struct Weights {
  uint4 rows[4];  // lane / 4 + 8 i
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
    __launch_bounds__(kThreads, 2) few_rows(const __grid_constant__ FewRowsParams p) {
  __shared__ float parts[kWarps][kOutputs];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int split = blockIdx.x % SPLITS, first = static_cast<int>(blockIdx.x / SPLITS) * kRows;
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const int steps = p.columns / kStep, worker = split * kWarps + warp;
  const int begin = steps * worker / (SPLITS * kWarps), end = steps * (worker + 1) / (SPLITS * kWarps);

  const TYPE* weights[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first + lane / 4 + 8 * i;
    weights[i] = static_cast<const TYPE*>(p.w) + (row < p.rows ? row : p.rows - 1) * p.w_stride + lane % 4 * 8;
  }
  Weights ahead[kAhead];
  uint4 x[kAhead][TILES];
  const auto load_weights = [&](int i, int step) {
#pragma unroll
    for (int row = 0; row < 4; ++row) ahead[i].rows[row] = load_once(weights[row] + step * kStep);
  };
#if !KEPT
  wait_for_earlier_kernels();
#endif
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (begin + i < end) load_weights(i, begin + i);
#if KEPT
  wait_for_earlier_kernels();
#endif
  const auto load_x = [&](int i, int step) {
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile) {
      const int token = first_token + 8 * tile + lane / 4;
      x[i][tile] = make_uint4(0, 0, 0, 0);
      if (token < p.tokens)
        x[i][tile] = *reinterpret_cast<const uint4*>(static_cast<const TYPE*>(p.x) + token * p.x_stride +
                                                     step * kStep + lane % 4 * 8);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
    if (begin + i < end) load_x(i, begin + i);

  float sums[2][TILES][4] = {};
#pragma unroll 1
  for (int step = begin; step < end; step += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (step + i >= end) break;
      const uint4(&w)[4] = ahead[i].rows;
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const uint4& b = x[i][tile];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          multiply(sums[half][tile], w[2 * half].x, w[2 * half + 1].x, w[2 * half].y, w[2 * half + 1].y, b.x, b.y);
          multiply(sums[half][tile], w[2 * half].z, w[2 * half + 1].z, w[2 * half].w, w[2 * half + 1].w, b.z, b.w);
        }
      }
      if (step + i + kAhead < end) {
        load_weights(i, step + i + kAhead);
        load_x(i, step + i + kAhead);
      }
    }
  }

#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * half + lane / 4 + i / 2 * 8, token = 8 * tile + lane % 4 * 2 + i % 2;
        parts[warp][token * kRows + row] = sums[half][tile][i];
      }
  __syncthreads();
  TYPE* out = static_cast<TYPE*>(p.out);
  const auto store = [&](int output, float value) {
    const int token = first_token + output / kRows, row = first + output % kRows;
    if (token < p.tokens && row < p.rows) out[token * p.out_stride + row] = Narrow<TYPE>::from(value);
  };
#pragma unroll
  for (int output = threadIdx.x; output < kOutputs; output += kThreads) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += parts[i][output];
    if (SPLITS == 1) {
      store(output, sum);
    } else {
      parts[0][output] = sum;
    }
  }
#if SPLITS > 1
  cluster_sync();
  for (int i = threadIdx.x; i < kOfABlock && split * kOfABlock + i < kOutputs; i += kThreads) {
    const int output = split * kOfABlock + i;
    float sum = 0;
#pragma unroll
    for (int rank = 0; rank < SPLITS; ++rank) sum += load_distributed(&parts[0][output], rank);
    store(output, sum);
  }
  cluster_sync();  // no block exits before the others have read its shared memory
#endif
}

}  // namespace ridgeline

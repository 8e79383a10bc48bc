// The softmax of the forward kernels, one tile of keys after the other: scores become weights relative to the
// largest score so far, and totals of weights are kept for the end.
#pragma once

#include "flash_common.cuh"

namespace ridgeline {

// Weights are taken relative to a maximum that may lag behind by this many powers of two; so most steps need
// no rescaling, and no weight leaves the range of fp16. Planes begin at its top, and leave no room to lag.
constexpr float kLag = kPlain ? 8 : 0;
constexpr float kTop = kPlain ? 0 : 14;

// For kM times 16 rows of a warp; a lane knows rows lane / 4 and lane / 4 + 8 of each.
template <int kM>
struct RunningSoftmax {
  float scale[kM];  // of scores, to powers of two
  float reference[kM][2], total[kM][2];
  float factor[kM][2];  // what sums of earlier steps are to be multiplied by, if raise said so

  template <class ScaleOf>
  __device__ __forceinline__ explicit RunningSoftmax(ScaleOf scale_of) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      scale[m] = scale_of(m);
#pragma unroll
      for (int i = 0; i < 2; ++i) reference[m][i] = -infinity(), total[m][i] = 0, factor[m][i] = 1;
    }
  }

  // Looks at the scores of a step. True where the reference had to rise, for any row of the warp.
  template <int kTiles>
  __device__ __forceinline__ bool raise(const Accumulator (&scores)[kM][kTiles]) {
    bool behind = false;
    float highest[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x = -infinity();
#pragma unroll
        for (int n = 0; n < kTiles; ++n) x = fmaxf(x, fmaxf(scores[m][n].v[2 * i], scores[m][n].v[2 * i + 1]));
        highest[m][i] = fmaxf(reference[m][i], quad_max(x));
        behind |= (highest[m][i] - reference[m][i]) * scale[m] > kLag;
      }
    }
    if (!__any_sync(~0u, behind)) return false;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // Nothing was added yet while the reference is -inf; 0 is then as good a factor as any.
        factor[m][i] = reference[m][i] == -infinity() ? 0 : exp2((reference[m][i] - highest[m][i]) * scale[m]);
        reference[m][i] = highest[m][i];
        total[m][i] *= factor[m][i];
      }
    return true;
  }

  template <int kTiles>
  __device__ __forceinline__ void rescale(Accumulator (&sums)[kM][kTiles]) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][n].v[i] *= factor[m][i / 2];
  }

  // Scores become weights, and join the totals.
  template <int kTiles>
  __device__ __forceinline__ void weigh(Accumulator (&scores)[kM][kTiles]) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float base = reference[m][i] == -infinity() ? 0 : reference[m][i];
        const float shift = base * scale[m];
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int j = 2 * i; j < 2 * i + 2; ++j) {
            float& s = scores[m][n].v[j];
            // The difference first is exact to the last bit; 16-bit results do not see it.
            s = kPlain ? exp2(s * scale[m] - shift) : exp2((s - base) * scale[m] + kTop);
            total[m][i] += s;
          }
      }
  }
};

// Writes the log-sum-exps of a warp's rows, and finds what their outputs are to be multiplied by.
template <int kM>
__device__ __forceinline__ void finish_totals(const FlashForwardParams& p, const Work& work,
                                              const RunningSoftmax<kM>& softmax, int first_row, int warp_row,
                                              float (&inverse)[kM][2]) {
  float* log_sum_exp =
      p.log_sum_exp + (static_cast<long long>(work.batch) * p.heads + work.head) * p.queries + first_row;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = quad_sum(softmax.total[m][i]);
      inverse[m][i] = sum > 0 ? 1 / sum : 0;
      const int row = warp_row + 16 * m + lane() / 4 + 8 * i;
      if (lane() % 4 == 0 && first_row + row < p.queries)
        log_sum_exp[row] =
            sum > 0 ? (softmax.reference[m][i] * softmax.scale[m] - kTop) * kLn2 + logf(sum) : -infinity();
    }
}

// The end of a tile: its outputs, divided by their totals, and log-sum-exps. `tile` is shared memory that is free
// for the warp's rows. A warp's queries are its own: it need not wait for the others.
template <class To, int kM, int kTiles>
__device__ __forceinline__ void finish_rows(const FlashForwardParams& p, const Work& work,
                                            RunningSoftmax<kM>& softmax, const Accumulator (&output)[kM][kTiles],
                                            To tile, int block_rows, int warp_row) {
  const int first_row = work.tile * block_rows;
  float inverse[kM][2];
  finish_totals(p, work, softmax, first_row, warp_row, inverse);
  // Through shared memory, so that rows leave in whole pieces.
  const Outputs out(p.out, work.batch, work.head);
  put_results(output, tile, out, first_row, p.queries, warp_row, 0, [&](int m, int i) { return inverse[m][i]; });
  __syncwarp();
  store_rows<16 * kM>(tile, out, first_row, p.queries, warp_row);
}

// The same without shared memory.
template <int kTiles>
__device__ __forceinline__ void finish_rows_directly(const FlashForwardParams& p, const Work& work,
                                                     const RunningSoftmax<1>& softmax,
                                                     const Accumulator (&output)[1][kTiles], int block_rows,
                                                     int warp_row) {
  const int first_row = work.tile * block_rows;
  float inverse[1][2];
  finish_totals(p, work, softmax, first_row, warp_row, inverse);
  store_results(output[0], Outputs(p.out, work.batch, work.head), first_row + warp_row, p.queries,
                [&](int i) { return inverse[0][i]; });
}

// Scores of queries from `query` on and keys from `key` on go through the function, if there is one.
template <int kM, int kTiles, class FactorOf>
__device__ __forceinline__ void apply_function(Accumulator (&scores)[kM][kTiles], const FlashForwardParams& p,
                                               const Work& work, int query, int key, FactorOf factor_of) {
  if constexpr (kFunction)
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const float factor = factor_of(m);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const ScorePlace at = {p.operands, work.batch, work.head, min(query + 16 * m + row_in_tile(i), p.queries - 1),
                                 min(key + 8 * n + column_in_tile(i), p.keys - 1)};
          scores[m][n].v[i] = score_value(at, scores[m][n].v[i] * factor);
        }
    }
}

}  // namespace ridgeline

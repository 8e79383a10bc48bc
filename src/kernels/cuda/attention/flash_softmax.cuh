// The online softmax of the forward kernels: tile by tile, scores become weights relative to a running maximum, and row
// sums of the weights are kept for the final division.
#pragma once

#include "flash_common.cuh"

namespace ridgeline {

// The running maximum may lag behind the true one by kLag powers of two, so that most steps need no rescaling and no
// weight leaves the range of fp16. Weights in planes start at the top of that range and leave no room for a lag.
constexpr float kLag = kIs16Bit ? 8 : 0;
constexpr float kTop = kIs16Bit ? 0 : 14;

// The state of kM x 16 rows of a warp; a lane holds rows lane / 4 and lane / 4 + 8 of each 16.
template <int kM>
struct RunningSoftmax {
  float scale[kM];  // from scores to exponents of 2
  float reference[kM][2], total[kM][2];
  float factor[kM][2];  // of earlier sums, valid if raise() returned true

  template <class ScaleOf>
  __device__ __forceinline__ explicit RunningSoftmax(ScaleOf scale_of) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      scale[m] = scale_of(m);
#pragma unroll
      for (int i = 0; i < 2; ++i) reference[m][i] = -infinity(), total[m][i] = 0, factor[m][i] = 1;
    }
  }

  // Updates the running maximum with the scores of a step. Returns true if it rose for any row of the warp.
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
        // Nothing has been added yet while the reference is -inf, and the exponential may be NaN.
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

  // Turns scores into weights and adds them to the totals.
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
            // Subtracting first is exact to the last bit, which 16-bit results do not need.
            s = kIs16Bit ? exp2(s * scale[m] - shift) : exp2((s - base) * scale[m] + kTop);
            total[m][i] += s;
          }
      }
  }
};

// Writes the log-sum-exps of a warp's rows and returns the factors of their outputs in `inverse`.
template <int kM>
__device__ __forceinline__ void finish_totals(const FlashForwardParams& p, const BlockTile& own,
                                              const RunningSoftmax<kM>& softmax, int first_row, int warp_row,
                                              float (&inverse)[kM][2]) {
  float* log_sum_exp =
      p.log_sum_exp + (static_cast<long long>(own.batch) * p.heads + own.head) * p.queries + first_row;
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

// Ends a tile: writes the normalised outputs and the log-sum-exps. `tile` is shared memory that is free for the warp's
// rows. A warp owns its queries, so it does not wait for the others.
template <class To, int kM, int kTiles>
__device__ __forceinline__ void finish_rows(const FlashForwardParams& p, const BlockTile& own,
                                            RunningSoftmax<kM>& softmax, const Accumulator (&output)[kM][kTiles],
                                            To tile, int block_rows, int warp_row) {
  const int first_row = own.tile * block_rows;
  float inverse[kM][2];
  finish_totals(p, own, softmax, first_row, warp_row, inverse);
  // Staged in shared memory, so that rows are written 16 bytes at a time.
  const Outputs out(p.out, own.batch, own.head);
  put_results(output, tile, out, first_row, p.queries, warp_row, 0, [&](int m, int i) { return inverse[m][i]; });
  __syncwarp();
  store_rows<16 * kM>(tile, out, first_row, p.queries, warp_row);
}

// The same, directly from registers.
template <int kTiles>
__device__ __forceinline__ void finish_rows_directly(const FlashForwardParams& p, const BlockTile& own,
                                                     const RunningSoftmax<1>& softmax,
                                                     const Accumulator (&output)[1][kTiles], int block_rows,
                                                     int warp_row) {
  const int first_row = own.tile * block_rows;
  float inverse[1][2];
  finish_totals(p, own, softmax, first_row, warp_row, inverse);
  store_results(output[0], Outputs(p.out, own.batch, own.head), first_row + warp_row, p.queries,
                [&](int i) { return inverse[0][i]; });
}

// Applies the score function, if there is one, to the scores, times factor_of(m), of queries from `query` on and keys
// from `key` on.
template <int kM, int kTiles, class FactorOf>
__device__ __forceinline__ void apply_function(Accumulator (&scores)[kM][kTiles], const FlashForwardParams& p,
                                               const BlockTile& own, int query, int key, FactorOf factor_of) {
  if constexpr (kFunction)
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const float factor = factor_of(m);
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const ScorePlace at = {p.operands, own.batch, own.head, min(query + 16 * m + row_in_tile(i), p.queries - 1),
                                 min(key + 8 * n + column_in_tile(i), p.keys - 1)};
          scores[m][n].v[i] = score_value(at, scores[m][n].v[i] * factor);
        }
    }
}

}  // namespace ridgeline

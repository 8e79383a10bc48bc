// The function of scores in the backward kernels of Hopper: scores become values, and gradients of values become those of
// scores. The latter are linear in the former, so the factor between them is computed beside the value and kept in 16 bits,
// as the gradients are that enter the next product: registers have no room for the scores themselves until then.
#pragma once

#include "flash_common.cuh"

namespace ridgeline {

template <int kTiles>
struct ScoreChain {
  unsigned factors[kChained ? kTiles : 1][2];  // pairs, as an Accumulator has them

  // place_of(n, i) is where number `i` of tile `n` stands.
  template <class PlaceOf>
  __device__ __forceinline__ void apply(Accumulator (&scores)[kTiles], PlaceOf place_of) {
    if constexpr (kFunction)
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        float factor[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const ScorePlace at = place_of(n, i);
          const float score = scores[n].v[i];
          scores[n].v[i] = score_value(at, score);
          factor[i] = score_gradient(at, score, 1);
        }
        if constexpr (kChained)
#pragma unroll
          for (int pair = 0; pair < 2; ++pair)
            factors[n][pair] = pack<Element>(factor[2 * pair], factor[2 * pair + 1]);
      }
  }

  // Weights of tile `n`, times these factors: 0 where a weight is, even if the function has no gradient there.
  __device__ __forceinline__ Accumulator times(int n, Accumulator weights) const {
    if constexpr (kChained)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float product = weights.v[i] * unpack<Element>(factors[n][i / 2], i % 2);
        weights.v[i] = weights.v[i] == 0 ? 0 : product;
      }
    return weights;
  }
};

}  // namespace ridgeline

// The score function in the Hopper backward kernels: apply() computes its values, times() applies the chain rule. The
// gradient is linear in d_result, so its factor is computed together with the value and kept in 16 bits, the precision
// in which gradients of scores enter the next product: registers have no room for the scores until then.
#pragma once

#include "flash_common.cuh"

namespace ridgeline {

template <int kTiles>
struct ScoreChain {
  unsigned factors[kChained ? kTiles : 1][2];  // pairs, in the order of an Accumulator

  // place_of(n, i) returns the coordinates of element `i` of tile `n`.
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

  // Returns the weights of tile `n` times the factors: 0 where a weight is 0, even if its factor is not finite.
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

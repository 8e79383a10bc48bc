// Tile sizes of the backward kernels, and the gradients of scores.
#pragma once

#include "kernels/cpu/simd/flash_mask.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kQueryTile = 128;
inline constexpr int64_t kKeyTile = 128;

struct WeightAndGradient {
  Floats weight, gradient;
};

// weight = exp(score * scale - log_sum_exp), gradient = weight * (d_weight - delta). d_weight and
// delta already contain the factor `scale` of the score's gradient.
template <bool kMasked>
HWY_INLINE WeightAndGradient score_gradient(Floats score, Floats scale, Floats log_sum_exp,
                                            Floats d_weight, Floats delta) {
  const Floats exponent = hn::MulSub(score, scale, log_sum_exp);
  Floats weight = exp2_floats(hn::Mul(exponent, hn::Set(Wide(), kLog2E)));
  if constexpr (kMasked) weight = hn::IfThenZeroElse(is_hidden(score), weight);
  return {weight, hn::Mul(weight, hn::Sub(d_weight, delta))};
}

// `count` is a multiple of kLanes.
HWY_INLINE void copy(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes)
    hn::StoreU(hn::LoadU(Wide(), from + i), Wide(), to + i);
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

// Tile sizes of the backward kernels, the gradients of scores, and the kernels by query tiles.
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

inline int64_t padded_head_dim(int64_t head_dim) {
  return round_up(head_dim, kLanes);
}

}  // namespace

// flash_backward_queries.cc
int64_t query_scratch_floats(int64_t head_dim);
void prepare_queries(const FlashBackwardHead& head, FlashRange queries, float* scratch);
void query_gradient(const FlashBackwardHead& head, FlashRange queries, float* scratch);

}  // namespace ridgeline::RIDGELINE_ISA

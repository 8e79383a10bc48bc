// The online softmax of flash attention: lanes are queries, rows of a tile of scores are keys.
#pragma once

#include "kernels/cpu/simd/flash_mask.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr double kLn2 = 0.6931471805599453;

// One value per query of the tile.
struct RunningSoftmax {
  float* maximum;     // of scores, before scaling
  float* normalizer;  // sum of weights relative to the maximum
  float* rescale;     // the factor of earlier weights in the last step
};

inline void begin_softmax(const RunningSoftmax& running, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) {
    running.maximum[i] = kNoMaximum;
    running.normalizer[i] = 0.0f;
  }
}

struct ScoreTile {
  const float* data;
  int64_t stride;
  int64_t queries;  // a multiple of kLanes
  int64_t keys;     // a multiple of kGroup
};

// Four maxima at a time hide the latency of each.
HWY_INLINE Floats column_maximum(Floats start, const float* column, int64_t stride, int64_t keys) {
  const Wide wide;
  Floats a = start, b = start, c = start, d = start;
  int64_t key = 0;
  for (; key + 4 <= keys; key += 4, column += 4 * stride) {
    a = hn::Max(a, hn::LoadU(wide, column));
    b = hn::Max(b, hn::LoadU(wide, column + stride));
    c = hn::Max(c, hn::LoadU(wide, column + 2 * stride));
    d = hn::Max(d, hn::LoadU(wide, column + 3 * stride));
  }
  for (; key < keys; ++key, column += stride) a = hn::Max(a, hn::LoadU(wide, column));
  return hn::Max(hn::Max(a, b), hn::Max(c, d));
}

// Turns scores into weights 2^((score - maximum) * scale2), passes kGroup keys at a time to
// emit(query, key, weights), and updates the running values. Returns whether a maximum changed.
template <bool kMasked, int kGroup, class Emit>
HWY_INLINE bool softmax_step(const RunningSoftmax& running, const ScoreTile& tile, float scale2,
                             Emit emit) {
  const Wide wide;
  const Floats scale = hn::Set(wide, scale2);
  bool moved = false;
  for (int64_t query = 0; query < tile.queries; query += kLanes) {
    const float* column = tile.data + query;
    const Floats before = hn::LoadU(wide, running.maximum + query);
    const Floats maximum = column_maximum(before, column, tile.stride, tile.keys);
    const Floats shift = hn::Mul(maximum, scale);
    Floats sum = hn::Zero(wide);
    for (int64_t key = 0; key < tile.keys; key += kGroup) {
      Floats weights[kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < kGroup; ++i) {
        const Floats score = hn::LoadU(wide, column + (key + i) * tile.stride);
        weights[i] = exp2_floats(hn::MulSub(score, scale, shift));
        if constexpr (kMasked) weights[i] = hn::IfThenZeroElse(is_hidden(score), weights[i]);
        sum = hn::Add(sum, weights[i]);
      }
      emit(query, key, weights);
    }
    // Exactly 1 if the maximum did not change: 2^0 of the polynomial is off by one unit in the last
    // place, which hundreds of tiles would amplify.
    const auto stood_still = hn::Eq(before, maximum);
    const Floats rescale = hn::IfThenElse(stood_still, hn::Set(wide, 1.0f),
                                          exp2_floats(hn::Mul(hn::Sub(before, maximum), scale)));
    const Floats normalizer = hn::LoadU(wide, running.normalizer + query);
    hn::StoreU(hn::MulAdd(normalizer, rescale, sum), wide, running.normalizer + query);
    hn::StoreU(maximum, wide, running.maximum + query);
    hn::StoreU(rescale, wide, running.rescale + query);
    moved = moved || !hn::AllTrue(wide, stood_still);
  }
  return moved;
}

// In fp64, because the backward takes the exponential of a difference to it: with scores of 1e4
// every rounding in fp32 leaves an error of 1e-3.
inline float log_sum_exp(float maximum, float normalizer, float scale) {
  const float scale2 = __builtin_fabsf(scale) * kLog2E;
  const float shift = maximum * scale2;
  const double lost = static_cast<double>(maximum) * scale2 - shift;
  const double largest = static_cast<double>(maximum) * __builtin_fabsf(scale);
  return static_cast<float>(largest - lost * kLn2 + __builtin_logf(normalizer));
}

// Writes log_sum_exp, and to `rescale` the factor that normalises a row: 0 if it saw no key.
inline void end_softmax(const RunningSoftmax& running, const FlashForwardTile& tile) {
  for (int64_t i = 0; i < tile.queries.end - tile.queries.begin; ++i) {
    const float normalizer = running.normalizer[i];
    const bool blind = normalizer == 0.0f;
    running.rescale[i] = blind ? 0.0f : 1.0f / normalizer;
    tile.log_sum_exp[(tile.queries.begin + i) * tile.log_sum_exp_stride] =
        blind ? -__builtin_inff() : log_sum_exp(running.maximum[i], normalizer, tile.scale);
  }
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

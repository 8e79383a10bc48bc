// Masks a tile of scores on the edge of the mask; whole tiles do not need it.
#pragma once

#include "kernels/cpu/simd/flash_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr float kLog2E = 1.4426950408889634f;
// Finite, so that a row that has seen no key yet never computes inf - inf.
inline constexpr float kNoMaximum = -1e30f;

// Scores are summed before scaling, in the same order everywhere, so that the backward computes bit
// for bit the scores of the forward. Only the sign of the scale goes into the packed operand.
HWY_INLINE float sign_of(float scale) {
  return scale < 0.0f ? -1.0f : 1.0f;
}

HWY_INLINE hn::Mask<Wide> is_hidden(Floats score) {
  return hn::Lt(score, hn::Set(Wide(), kNoMaximum));
}

inline int32_t position_in(FlashRange keys, int64_t key) {
  const int64_t inside = key < keys.begin ? keys.begin : key > keys.end ? keys.end : key;
  return static_cast<int32_t>(inside - keys.begin);
}

HWY_INLINE void hide_unless(hn::Mask<WideInts> seen, float* scores) {
  const Floats hidden = hn::Set(Wide(), -__builtin_inff());
  const auto kept = hn::RebindMask(Wide(), seen);
  hn::StoreU(hn::IfThenElse(kept, hn::LoadU(Wide(), scores), hidden), Wide(), scores);
}

// Rows are keys, lanes are queries.
inline void hide_keys_by_queries(const FlashMask& mask, FlashRange queries, FlashRange keys,
                                 float* scores, int64_t stride) {
  const WideInts ints;
  for (int64_t query = queries.begin; query < queries.end; query += kLanes, scores += kLanes) {
    int32_t first[kLanes], end[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      first[lane] = position_in(keys, first_key(mask, query + lane));
      end[lane] = position_in(keys, end_key(mask, query + lane));
    }
    const auto firsts = hn::LoadU(ints, first);
    const auto ends = hn::LoadU(ints, end);
    for (int64_t key = 0; key < keys.end - keys.begin; ++key) {
      const auto position = hn::Set(ints, static_cast<int32_t>(key));
      const auto seen = hn::AndNot(hn::Lt(position, firsts), hn::Lt(position, ends));
      hide_unless(seen, scores + key * stride);
    }
  }
}

// Rows are queries, lanes are keys.
inline void hide_queries_by_keys(const FlashMask& mask, FlashRange queries, FlashRange keys,
                                 float* scores, int64_t stride) {
  const WideInts ints;
  for (int64_t query = queries.begin; query < queries.end; ++query, scores += stride) {
    const auto first = hn::Set(ints, position_in(keys, first_key(mask, query)));
    const auto end = hn::Set(ints, position_in(keys, end_key(mask, query)));
    for (int64_t key = 0; key < keys.end - keys.begin; key += kLanes) {
      const auto position = hn::Iota(ints, static_cast<int32_t>(key));
      const auto seen = hn::AndNot(hn::Lt(position, first), hn::Lt(position, end));
      hide_unless(seen, scores + key);
    }
  }
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

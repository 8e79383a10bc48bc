// Flash attention forward: one tile of queries against all the keys it may see.
//
// Scores are computed transposed (keys x queries), so that keys and values are read where they lie,
// only the queries are packed, and the softmax runs down the lanes without horizontal reductions.
#include "kernels/cpu/simd/flash_entries.h"
#include "kernels/cpu/simd/flash_mask.h"
#include "kernels/cpu/simd/flash_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kQueryTile = kPanel > 64 ? kPanel : 64;
inline constexpr int64_t kKeyTile = 96;
inline constexpr double kLn2 = 0.6931471805599453f;

struct ForwardScratch {
  float* queries;     // packed, head_dim x kQueryTile
  float* scores;      // kKeyTile x kQueryTile
  float* sums;        // kQueryTile x head_dim: the unnormalised output
  float* keys;        // kKeyTile x head_dim, used for keys, then for values
  float* maximum;     // kQueryTile, of scores before the scale
  float* normalizer;  // kQueryTile
  float* rescale;     // kQueryTile

  static ForwardScratch carve(Scratch& scratch, int64_t head_dim) {
    const int64_t padded = round_up(head_dim, kLanes);
    return {.queries = scratch.take(padded * kQueryTile),
            .scores = scratch.take(kKeyTile * kQueryTile),
            .sums = scratch.take(kQueryTile * padded),
            .keys = scratch.take(kKeyTile * padded),
            .maximum = scratch.take(kQueryTile),
            .normalizer = scratch.take(kQueryTile),
            .rescale = scratch.take(kQueryTile)};
  }
};

// Turns scores into weights 2^((score - maximum) * scale2) and folds them into the running maximum
// and normalizer. Returns whether a maximum moved, so that earlier sums must be rescaled.
template <bool kMasked>
bool softmax_step(const ForwardScratch& at, float scale2, int64_t queries, int64_t keys) {
  const Wide wide;
  const Floats scale = hn::Set(wide, scale2);
  bool moved = false;
  for (int64_t query = 0; query < queries; query += kLanes) {
    float* column = at.scores + query;
    const Floats before = hn::LoadU(wide, at.maximum + query);
    Floats maximum = before;
    for (int64_t key = 0; key < keys; ++key)
      maximum = hn::Max(maximum, hn::LoadU(wide, column + key * kQueryTile));
    const Floats shift = hn::Mul(maximum, scale);
    Floats sum = hn::Zero(wide);
    for (int64_t key = 0; key < keys; ++key) {
      const Floats score = hn::LoadU(wide, column + key * kQueryTile);
      Floats weight = exp2_floats(hn::MulSub(score, scale, shift));
      if constexpr (kMasked) weight = hn::IfThenZeroElse(is_hidden(score), weight);
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, wide, column + key * kQueryTile);
    }
    const Floats rescale = exp2_floats(hn::Mul(hn::Sub(before, maximum), scale));
    const Floats normalizer = hn::LoadU(wide, at.normalizer + query);
    hn::StoreU(hn::MulAdd(normalizer, rescale, sum), wide, at.normalizer + query);
    hn::StoreU(maximum, wide, at.maximum + query);
    hn::StoreU(rescale, wide, at.rescale + query);
    moved = moved || !hn::AllTrue(wide, hn::Eq(before, maximum));
  }
  return moved;
}

void rescale_sums(const ForwardScratch& at, int64_t queries, int64_t padded) {
  for (int64_t query = 0; query < queries; ++query) {
    if (at.rescale[query] == 1.0f) continue;
    const Floats factor = hn::Set(Wide(), at.rescale[query]);
    float* row = at.sums + query * padded;
    for (int64_t i = 0; i < padded; i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(Wide(), row + i), factor), Wide(), row + i);
  }
}

// In fp64, because the backward takes the exponential of a difference to it: scores of 1e4 leave an
// error of 1e-3 in fp32 at every rounding on the way.
float log_sum_exp(float maximum, float normalizer, float scale) {
  const float scale2 = __builtin_fabsf(scale) * kLog2E;
  const double lost = static_cast<double>(maximum) * scale2 - maximum * scale2;
  const double largest = static_cast<double>(maximum) * __builtin_fabsf(scale);
  return static_cast<float>(largest - lost * kLn2 + __builtin_logf(normalizer));
}

void write_results(const FlashForwardTile& tile, const ForwardScratch& at, int64_t padded) {
  const int64_t count = tile.queries.end - tile.queries.begin;
  for (int64_t i = 0; i < count; ++i) {
    const float normalizer = at.normalizer[i];
    at.rescale[i] = normalizer == 0.0f ? 0.0f : 1.0f / normalizer;
    tile.log_sum_exp[(tile.queries.begin + i) * tile.log_sum_exp_stride] =
        normalizer == 0.0f ? -__builtin_inff() : log_sum_exp(at.maximum[i], normalizer, tile.scale);
  }
  store_rows(at.sums, padded, at.rescale, tile.out, tile.queries, tile.head_dim);
}

}  // namespace

FlashTileSizes forward_tile_sizes(int64_t) {
  return {.queries = kQueryTile, .keys = kKeyTile};
}

int64_t forward_scratch_floats(int64_t head_dim) {
  Scratch scratch(nullptr);
  ForwardScratch::carve(scratch, head_dim);
  return scratch.used();
}

void forward(const FlashForwardTile& tile, float* scratch_floats) {
  Scratch scratch(scratch_floats);
  const ForwardScratch at = ForwardScratch::carve(scratch, tile.head_dim);
  const int64_t padded = round_up(tile.head_dim, kLanes);
  const int64_t queries = tile.queries.end - tile.queries.begin;
  const int64_t lanes = round_up(queries, kLanes);
  for (int64_t i = 0; i < lanes; ++i) {
    at.maximum[i] = kNoMaximum;
    at.normalizer[i] = 0.0f;
  }
  const float scale2 = __builtin_fabsf(tile.scale) * kLog2E;
  const Panels packed =
      transpose_rows(tile.q, tile.queries, tile.head_dim, sign_of(tile.scale), at.queries, at.keys);
  const FlashRange visible = visible_keys(tile.mask, tile.queries);
  bool first = true;
  for (int64_t key = visible.begin; key < visible.end; key += kKeyTile) {
    const FlashRange keys = {key, key + kKeyTile < visible.end ? key + kKeyTile : visible.end};
    const int64_t count = keys.end - keys.begin;
    const FloatRows k = view_rows(tile.k, keys, tile.head_dim, at.keys);
    multiply<Left::plain>(k.data, k.stride, packed, at.scores, kQueryTile, count, lanes,
                          tile.head_dim, false);
    bool moved = false;
    if (all_visible(tile.mask, tile.queries, keys)) {
      moved = softmax_step<false>(at, scale2, lanes, count);
    } else {
      hide_keys_by_queries(tile.mask, tile.queries, keys, at.scores, kQueryTile);
      moved = softmax_step<true>(at, scale2, lanes, count);
    }
    if (moved && !first) rescale_sums(at, queries, padded);
    const FloatRows v = view_rows(tile.v, keys, tile.head_dim, at.keys);
    multiply<Left::transposed>(at.scores, kQueryTile, {v.data, v.stride}, at.sums, padded, queries,
                               padded, count, !first);
    first = false;
  }
  if (first)
    for (int64_t i = 0; i < queries * padded; ++i) at.sums[i] = 0.0f;
  write_results(tile, at, padded);
}

}  // namespace ridgeline::RIDGELINE_ISA

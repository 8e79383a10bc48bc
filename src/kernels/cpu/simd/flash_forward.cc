// Flash attention forward: one tile of queries against all keys that it sees.
//
// Scores are computed transposed (keys x queries), so that keys and values are read in place, only
// the queries are packed, and the softmax runs along lanes without horizontal reductions.
#include "kernels/cpu/simd/flash_softmax.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kQueryTile = 64;
inline constexpr int64_t kKeyTile = 96;

struct ForwardScratch {
  float* queries;  // packed, head_dim x kQueryTile
  float* scores;   // kKeyTile x kQueryTile
  float* sums;     // kQueryTile x head_dim: the unnormalised output
  float* keys;     // kKeyTile x head_dim, used for keys, then for values
  RunningSoftmax running;

  static ForwardScratch carve(Scratch& scratch, int64_t head_dim) {
    const int64_t padded = round_up(head_dim, kLanes);
    return {.queries = scratch.take(padded * kQueryTile),
            .scores = scratch.take(kKeyTile * kQueryTile),
            .sums = scratch.take(kQueryTile * padded),
            .keys = scratch.take(kKeyTile * padded),
            .running = {.maximum = scratch.take(kQueryTile),
                        .normalizer = scratch.take(kQueryTile),
                        .rescale = scratch.take(kQueryTile)}};
  }
};

template <bool kMasked>
bool scores_to_weights(const ForwardScratch& at, float scale2, int64_t queries, int64_t keys) {
  float* weights_at = at.scores;
  return softmax_step<kMasked, 1>(at.running, {at.scores, kQueryTile, queries, keys}, scale2,
                                  [weights_at](int64_t query, int64_t key, const Floats* weights) {
                                    hn::StoreU(weights[0], Wide(),
                                               weights_at + key * kQueryTile + query);
                                  });
}

void rescale_sums(const ForwardScratch& at, int64_t queries, int64_t padded) {
  for (int64_t query = 0; query < queries; ++query) {
    if (at.running.rescale[query] == 1.0f) continue;
    const Floats factor = hn::Set(Wide(), at.running.rescale[query]);
    float* row = at.sums + query * padded;
    for (int64_t i = 0; i < padded; i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(Wide(), row + i), factor), Wide(), row + i);
  }
}

void forward(const FlashForwardTile& tile, float* scratch) {
  const auto at = carve<ForwardScratch>(scratch, tile.head_dim);
  const int64_t padded = round_up(tile.head_dim, kLanes);
  const int64_t queries = tile.queries.end - tile.queries.begin;
  const int64_t lanes = round_up(queries, kLanes);
  const float scale2 = __builtin_fabsf(tile.scale) * kLog2E;
  begin_softmax(at.running, lanes);
  const Panels packed =
      transpose_rows(tile.q, tile.queries, tile.head_dim, sign_of(tile.scale), at.queries, at.keys);
  const FlashRange visible = visible_keys(tile.mask, tile.queries);
  bool first = true;
  for (int64_t key = visible.begin; key < visible.end; key += kKeyTile) {
    const FlashRange keys = {key, key + kKeyTile < visible.end ? key + kKeyTile : visible.end};
    const FlashScores place = {keys, tile.queries, true, kQueryTile};
    if (!is_seen(tile.function, place)) continue;
    const int64_t count = keys.end - keys.begin;
    const FloatRows k = view_rows(tile.k, keys, tile.head_dim, at.keys);
    multiply<Left::plain>(k.data, k.stride, packed, at.scores, kQueryTile, count, lanes,
                          tile.head_dim, false);
    const bool visible_to_all = all_visible(tile.mask, tile.queries, keys);
    const bool has_function = tile.function.apply != nullptr;
    if (has_function) tile.function.apply(tile.function, place, at.scores);
    if (!visible_to_all) hide_keys_by_queries(tile.mask, tile.queries, keys, at.scores, kQueryTile);
    const bool moved = visible_to_all && !has_function
                           ? scores_to_weights<false>(at, scale2, lanes, count)
                           : scores_to_weights<true>(at, scale2, lanes, count);
    if (moved && !first) rescale_sums(at, queries, padded);
    const FloatRows v = view_rows(tile.v, keys, tile.head_dim, at.keys);
    multiply<Left::transposed>(at.scores, kQueryTile, {v.data, v.stride}, at.sums, padded, queries,
                               padded, count, !first);
    first = false;
  }
  if (first)
    for (int64_t i = 0; i < queries * padded; ++i) at.sums[i] = 0.0f;
  end_softmax(at.running, tile);
  store_rows(at.sums, padded, at.running.rescale, tile.out, tile.queries, tile.head_dim);
}

}  // namespace

const FlashForwardKernel kForward = {.tiles = {.queries = kQueryTile, .keys = kKeyTile},
                                     .scratch_floats = floats_of<ForwardScratch>,
                                     .run = forward};

}  // namespace ridgeline::RIDGELINE_ISA

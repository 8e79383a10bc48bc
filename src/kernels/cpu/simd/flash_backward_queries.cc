// Flash attention backward by query tiles: the terms of each query, and dQ of a tile over all keys.
#include "kernels/cpu/simd/flash_backward_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

// Scores have the layout of the forward kernel: rows are keys, lanes are queries.
struct QueryScratch {
  float* query_panels;  // packed, head_dim x kQueryTile, times the sign of scale
  float* d_out_panels;  // packed, head_dim x kQueryTile, times scale
  float* scores;        // kKeyTile x kQueryTile
  float* d_scores;      // kKeyTile x kQueryTile
  float* raw_scores;    // kKeyTile x kQueryTile, before the score function
  float* keys;          // kKeyTile x head_dim, if the tensor's own rows cannot be used
  float* values;        // kKeyTile x head_dim, as for keys
  float* sums;          // kQueryTile x head_dim
  float* log_sum_exp;   // kQueryTile
  float* delta;         // kQueryTile

  static QueryScratch carve(Scratch& scratch, int64_t head_dim) {
    const int64_t padded = round_up(head_dim, kLanes);
    return {.query_panels = scratch.take(padded * kQueryTile),
            .d_out_panels = scratch.take(padded * kQueryTile),
            .scores = scratch.take(kKeyTile * kQueryTile),
            .d_scores = scratch.take(kKeyTile * kQueryTile),
            .raw_scores = scratch.take(kKeyTile * kQueryTile),
            .keys = scratch.take(kKeyTile * padded),
            .values = scratch.take(kKeyTile * padded),
            .sums = scratch.take(kQueryTile * padded),
            .log_sum_exp = scratch.take(kQueryTile),
            .delta = scratch.take(kQueryTile)};
  }
};

template <bool kMasked>
void score_gradients(const QueryScratch& at, float scale_factor, int64_t lanes, int64_t keys) {
  const Wide wide;
  const Floats scale = hn::Set(wide, __builtin_fabsf(scale_factor));
  for (int64_t i = 0; i < lanes; i += kLanes) {
    const Floats log_sum_exp = hn::LoadU(wide, at.log_sum_exp + i);
    const Floats delta = hn::LoadU(wide, at.delta + i);
    for (int64_t key = 0; key < keys; ++key) {
      float* d_score = at.d_scores + key * kQueryTile + i;
      const auto result =
          score_gradient<kMasked>(hn::LoadU(wide, at.scores + key * kQueryTile + i), scale,
                                  log_sum_exp, hn::LoadU(wide, d_score), delta);
      hn::StoreU(result.gradient, wide, d_score);
    }
  }
}

}  // namespace

int64_t query_scratch_floats(int64_t head_dim) {
  return floats_of<QueryScratch>(head_dim);
}

void prepare_queries(const FlashBackwardHead& head, FlashRange queries, float* scratch) {
  const Wide wide;
  const int64_t padded = round_up(head.head_dim, kLanes);
  for (int64_t query = queries.begin; query < queries.end; ++query) {
    const FlashRange row = {query, query + 1};
    const FloatRows out = view_rows(head.out, row, head.head_dim, scratch);
    const FloatRows d_out = view_rows(head.d_out, row, head.head_dim, scratch + padded);
    Floats sum = hn::Zero(wide);
    for (int64_t i = 0; i < padded; i += kLanes)
      sum = hn::MulAdd(hn::LoadU(wide, out.data + i), hn::LoadU(wide, d_out.data + i), sum);
    head.delta[query] = head.scale * hn::GetLane(hn::SumOfLanes(wide, sum));
    const float log_sum_exp = head.log_sum_exp[query * head.log_sum_exp_stride];
    // With +inf every weight of a row without keys is 0.
    head.row_log_sum_exp[query] = log_sum_exp == -__builtin_inff() ? __builtin_inff() : log_sum_exp;
  }
}

void query_gradient(const FlashBackwardHead& head, FlashRange queries, float* scratch) {
  const auto at = carve<QueryScratch>(scratch, head.head_dim);
  const int64_t padded = round_up(head.head_dim, kLanes);
  const int64_t count = queries.end - queries.begin;
  const int64_t lanes = round_up(count, kLanes);
  for (int64_t i = 0; i < lanes; ++i) {
    at.log_sum_exp[i] = i < count ? head.row_log_sum_exp[queries.begin + i] : 0.0f;
    at.delta[i] = i < count ? head.delta[queries.begin + i] : 0.0f;
  }
  const Panels query_panels =
      transpose_rows(head.q, queries, head.head_dim, sign_of(head.scale), at.query_panels, at.keys);
  const Panels d_out_panels =
      transpose_rows(head.d_out, queries, head.head_dim, head.scale, at.d_out_panels, at.keys);
  const FlashRange visible = visible_keys(head.mask, queries);
  bool first = true;
  for (int64_t key = visible.begin; key < visible.end; key += kKeyTile) {
    const FlashRange keys = {key, key + kKeyTile < visible.end ? key + kKeyTile : visible.end};
    const FlashScores place = {keys, queries, true, kQueryTile};
    if (!is_seen(head.function, place)) continue;
    const int64_t key_count = keys.end - keys.begin;
    const FloatRows k = view_rows(head.k, keys, head.head_dim, at.keys);
    const FloatRows v = view_rows(head.v, keys, head.head_dim, at.values);
    multiply<Left::plain>(k.data, k.stride, query_panels, at.scores, kQueryTile, key_count, lanes,
                          head.head_dim, false);
    multiply<Left::plain>(v.data, v.stride, d_out_panels, at.d_scores, kQueryTile, key_count, lanes,
                          head.head_dim, false);
    const bool visible_to_all = all_visible(head.mask, queries, keys);
    const bool has_function = head.function.apply != nullptr;
    if (has_function) {
      copy(at.scores, at.raw_scores, key_count * kQueryTile);
      head.function.apply(head.function, place, at.scores);
    }
    if (!visible_to_all) hide_keys_by_queries(head.mask, queries, keys, at.scores, kQueryTile);
    if (visible_to_all && !has_function)
      score_gradients<false>(at, head.scale, lanes, key_count);
    else
      score_gradients<true>(at, head.scale, lanes, key_count);
    if (has_function) head.function.differentiate(head.function, place, at.raw_scores, at.d_scores);
    multiply<Left::transposed>(at.d_scores, kQueryTile, {k.data, k.stride}, at.sums, padded, count,
                               padded, key_count, !first);
    first = false;
  }
  if (first)
    for (int64_t i = 0; i < count * padded; ++i) at.sums[i] = 0.0f;
  store_rows(at.sums, padded, nullptr, head.d_q, queries, head.head_dim);
}

}  // namespace ridgeline::RIDGELINE_ISA

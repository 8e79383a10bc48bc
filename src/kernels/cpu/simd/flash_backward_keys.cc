// Flash attention backward by key tiles: dK and dV stay in cache while the queries are streamed.
#include "kernels/cpu/simd/flash_backward_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

struct KeyScratch {
  float* key_panels;    // packed, head_dim x kKeyTile, times the sign of scale
  float* value_panels;  // packed, head_dim x kKeyTile, times scale
  float* keys;          // kKeyTile x head_dim, if the tensor's own rows cannot be used
  float* d_keys;        // kKeyTile x head_dim, if they cannot be summed in the tensor
  float* d_values;      // kKeyTile x head_dim, as for d_keys
  float* weights;       // kQueryTile x kKeyTile
  float* d_scores;      // kQueryTile x kKeyTile
  float* queries;       // kQueryTile x head_dim, as for keys
  float* d_out;         // kQueryTile x head_dim, as for keys
  float* scores;        // kQueryTile x kKeyTile, before the score function

  static KeyScratch carve(Scratch& scratch, int64_t head_dim) {
    const int64_t padded = round_up(head_dim, kLanes);
    return {.key_panels = scratch.take(padded * kKeyTile),
            .value_panels = scratch.take(padded * kKeyTile),
            .keys = scratch.take(kKeyTile * padded),
            .d_keys = scratch.take(kKeyTile * padded),
            .d_values = scratch.take(kKeyTile * padded),
            .weights = scratch.take(kQueryTile * kKeyTile),
            .d_scores = scratch.take(kQueryTile * kKeyTile),
            .queries = scratch.take(kQueryTile * padded),
            .d_out = scratch.take(kQueryTile * padded),
            .scores = scratch.take(kQueryTile * kKeyTile)};
  }
};

// Turns scores into weights, and in d_scores gradients of weights into gradients of scores.
template <bool kMasked>
void score_gradients(const KeyScratch& at, const FlashBackwardHead& head, FlashRange queries,
                     int64_t lanes) {
  const Wide wide;
  const Floats scale = hn::Set(wide, __builtin_fabsf(head.scale));
  float* weights = at.weights;
  float* d_scores = at.d_scores;
  for (int64_t query = queries.begin; query < queries.end; ++query) {
    const Floats log_sum_exp = hn::Set(wide, head.row_log_sum_exp[query]);
    const Floats delta = hn::Set(wide, head.delta[query]);
    for (int64_t i = 0; i < lanes; i += kLanes) {
      const auto result = score_gradient<kMasked>(hn::LoadU(wide, weights + i), scale, log_sum_exp,
                                                  hn::LoadU(wide, d_scores + i), delta);
      hn::StoreU(result.weight, wide, weights + i);
      hn::StoreU(result.gradient, wide, d_scores + i);
    }
    weights += kKeyTile;
    d_scores += kKeyTile;
  }
}

// The rows that view_rows returned: in place, or in the copy that it made.
FloatRows rows_seen(const FlashRows& rows, FlashRange range, int64_t head_dim, float* copied) {
  return is_plain(rows, head_dim) ? view_rows(rows, range, head_dim, nullptr)
                                  : FloatRows{copied, round_up(head_dim, kLanes)};
}

// Rows that are summed: in place if possible, else in `apart`.
struct SumRows {
  float* data;
  int64_t stride;
};
SumRows sum_rows(const FlashRows& rows, FlashRange range, int64_t head_dim, float* apart) {
  if (!is_plain(rows, head_dim)) return {apart, round_up(head_dim, kLanes)};
  return {static_cast<float*>(rows.data) + range.begin * rows.row_stride, rows.row_stride};
}

int64_t backward_scratch_floats(int64_t head_dim) {
  const int64_t by_keys = floats_of<KeyScratch>(head_dim);
  const int64_t by_queries = query_scratch_floats(head_dim);
  return by_keys > by_queries ? by_keys : by_queries;
}

void begin_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch) {
  const auto at = carve<KeyScratch>(scratch, head.head_dim);
  transpose_rows(head.k, keys, head.head_dim, sign_of(head.scale), at.key_panels, at.queries);
  transpose_rows(head.v, keys, head.head_dim, head.scale, at.value_panels, at.queries);
  view_rows(head.k, keys, head.head_dim, at.keys);
}

void find_score_gradients(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                          float* scratch) {
  const auto at = carve<KeyScratch>(scratch, head.head_dim);
  const int64_t padded = round_up(head.head_dim, kLanes);
  const int64_t lanes = round_up(keys.end - keys.begin, kLanes);
  const int64_t count = queries.end - queries.begin;
  const FloatRows q = view_rows(head.q, queries, head.head_dim, at.queries);
  const FloatRows d_out = view_rows(head.d_out, queries, head.head_dim, at.d_out);
  const int64_t panel_stride = padded * kPanel;
  const auto next_tile = [&](const FloatRows& rows) {
    return RowsAhead{rows.data + kQueryTile * rows.stride, rows.stride, head.head_dim};
  };
  multiply<Left::plain>(q.data, q.stride, {at.key_panels, kPanel, panel_stride}, at.weights,
                        kKeyTile, count, lanes, head.head_dim, false, next_tile(q));
  multiply<Left::plain>(d_out.data, d_out.stride, {at.value_panels, kPanel, panel_stride},
                        at.d_scores, kKeyTile, count, lanes, head.head_dim, false,
                        next_tile(d_out));
  const bool visible_to_all = all_visible(head.mask, queries, keys);
  const bool has_function = head.function.apply != nullptr;
  const FlashScores place = {queries, keys, false, kKeyTile};
  if (has_function) {
    copy(at.weights, at.scores, count * kKeyTile);
    head.function.apply(head.function, place, at.weights);
  }
  if (!visible_to_all) hide_queries_by_keys(head.mask, queries, keys, at.weights, kKeyTile);
  if (visible_to_all && !has_function)
    score_gradients<false>(at, head, queries, lanes);
  else
    score_gradients<true>(at, head, queries, lanes);
  if (has_function) head.function.differentiate(head.function, place, at.scores, at.d_scores);
}

void add_queries(const FlashBackwardHead& head, FlashRange keys, FlashRange queries, bool first,
                 float* scratch) {
  const auto at = carve<KeyScratch>(scratch, head.head_dim);
  const int64_t padded = round_up(head.head_dim, kLanes);
  const int64_t key_count = keys.end - keys.begin;
  const int64_t count = queries.end - queries.begin;
  const FloatRows q = rows_seen(head.q, queries, head.head_dim, at.queries);
  const FloatRows d_out = rows_seen(head.d_out, queries, head.head_dim, at.d_out);
  const SumRows d_v = sum_rows(head.d_v, keys, head.head_dim, at.d_values);
  const SumRows d_k = sum_rows(head.d_k, keys, head.head_dim, at.d_keys);
  multiply<Left::transposed>(at.weights, kKeyTile, {d_out.data, d_out.stride}, d_v.data, d_v.stride,
                             key_count, padded, count, !first,
                             RowsAhead{d_v.data, d_v.stride, padded});
  multiply<Left::transposed>(at.d_scores, kKeyTile, {q.data, q.stride}, d_k.data, d_k.stride,
                             key_count, padded, count, !first,
                             RowsAhead{d_k.data, d_k.stride, padded});
}

void add_query_gradient(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                        float* accumulator, int64_t row_stride, bool first, float* scratch) {
  const auto at = carve<KeyScratch>(scratch, head.head_dim);
  const int64_t padded = round_up(head.head_dim, kLanes);
  const FloatRows k = rows_seen(head.k, keys, head.head_dim, at.keys);
  multiply<Left::plain>(at.d_scores, kKeyTile, {k.data, k.stride}, accumulator, row_stride,
                        queries.end - queries.begin, padded, keys.end - keys.begin, !first,
                        RowsAhead{accumulator, row_stride, padded});
}

void finish_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch) {
  const auto at = carve<KeyScratch>(scratch, head.head_dim);
  const int64_t padded = round_up(head.head_dim, kLanes);
  if (!is_plain(head.d_k, head.head_dim))
    store_rows(at.d_keys, padded, nullptr, head.d_k, keys, head.head_dim);
  if (!is_plain(head.d_v, head.head_dim))
    store_rows(at.d_values, padded, nullptr, head.d_v, keys, head.head_dim);
}

}  // namespace

const FlashBackwardKernels kBackward = {.tiles = {.queries = kQueryTile, .keys = kKeyTile},
                                        .scratch_floats = backward_scratch_floats,
                                        .prepare_queries = prepare_queries,
                                        .query_gradient = query_gradient,
                                        .begin_keys = begin_keys,
                                        .find_score_gradients = find_score_gradients,
                                        .add_queries = add_queries,
                                        .add_query_gradient = add_query_gradient,
                                        .finish_keys = finish_keys,
                                        .padded_head_dim = padded_head_dim,
                                        .store_rows = store_rows};

}  // namespace ridgeline::RIDGELINE_ISA

// Flash attention backward for bf16 in blocks (bf16_units.h): five products for each pair of a key
// tile and a query tile, with fp32 vectors between them.
//
// Scores are queries x keys. So queries and gradients of the output are read in place, the packed
// keys and values serve all queries, and adjacent queries form the words that dK and dV need
// without a transposition. dK and dV are summed as head_dim x keys.
#include "kernels/cpu/simd/flash_backward_tiles.h"

#if HWY_TARGET <= HWY_AVX3
#include "kernels/cpu/simd/flash_blocks.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kMostKeys = 2 * kKeyTile;
inline constexpr int64_t kQueryBlocks = kQueryTile / kBlock;
inline constexpr int64_t kPairs = kBlock / 2;

// Panels are columns of kBlock words, elements or sums, one after the other: so tiles are
// contiguous, whereas rows far apart would map to the same cache sets.
struct BackwardScratch {
  uint32_t* key_words;       // per block of keys head_dim / 2 x kBlock: pairs along head_dim
  uint32_t* value_words;     // the same
  uint32_t* key_pairs;       // per 32 of head_dim kMostKeys / 2 x kBlock: pairs of keys
  float* d_keys;             // per block of keys head_dim x kBlock
  float* d_values;           // the same
  uint16_t* queries;         // transposed: per block of queries head_dim x kBlock
  uint16_t* d_out;           // the same
  uint32_t* weights;         // per block of keys kQueryTile / 2 x kBlock: pairs of queries
  uint32_t* d_scores;        // the same
  uint16_t* d_score_rows;    // per block of keys kQueryTile x kBlock
  uint16_t* copied_queries;  // kQueryTile x head_dim, if the last block is not whole
  uint16_t* copied_d_out;    // the same
  float* scores;             // kBlock x kBlock
  float* d_weights;          // the same
  float* raw_scores;         // the same, before the score function
  float* log_sum_exp;        // kQueryTile
  float* delta;              // kQueryTile
  float* sums;  // kQueryTile x head_dim: dQ, or rows of dK and dV before they are stored

  static BackwardScratch carve(Scratch& scratch, int64_t head_dim) {
    const auto words = [&](int64_t count) {
      return reinterpret_cast<uint32_t*>(scratch.take(count));
    };
    const auto halves = [&](int64_t count) {
      return reinterpret_cast<uint16_t*>(scratch.take(count / 2));
    };
    return {.key_words = words(kMostKeys * head_dim / 2),
            .value_words = words(kMostKeys * head_dim / 2),
            .key_pairs = words(kMostKeys * head_dim / 2),
            .d_keys = scratch.take(kMostKeys * head_dim),
            .d_values = scratch.take(kMostKeys * head_dim),
            .queries = halves(kQueryTile * head_dim),
            .d_out = halves(kQueryTile * head_dim),
            .weights = words(kMostKeys * kQueryTile / 2),
            .d_scores = words(kMostKeys * kQueryTile / 2),
            .d_score_rows = halves(kMostKeys * kQueryTile),
            .copied_queries = halves(kQueryTile * head_dim),
            .copied_d_out = halves(kQueryTile * head_dim),
            .scores = scratch.take(kBlock * kBlock),
            .d_weights = scratch.take(kBlock * kBlock),
            .raw_scores = scratch.take(kBlock * kBlock),
            .log_sum_exp = scratch.take(kQueryTile),
            .delta = scratch.take(kQueryTile),
            .sums = scratch.take(kQueryTile * head_dim)};
  }
};

// Packs pairs of rows: (2 i, column) goes to (i, column) of the column's panel.
void pack_pairs_of_rows(const FlashRows& from, FlashRange rows, int64_t head_dim, uint32_t* to) {
  const int64_t count = rows.end - rows.begin;
  for (int64_t row = 0; row < count; row += kBlock)
    for (int64_t column = 0; column < head_dim; column += 16) {
      Words words[16];
      load_words<WordOrder::lines_inside>(columns_at(from, rows.begin + row, count - row, column),
                                          words);
      uint32_t* panel = to + column / kBlock * (kMostKeys / 2 * kBlock) + column % kBlock;
      for (int i = 0; i < 16; ++i) hn::StoreU(words[i], WideBits(), panel + (row / 2 + i) * kBlock);
    }
}

// The blocks of keys that a block of queries sees.
FlashRange seen_blocks(const FlashMask& mask, FlashRange queries, FlashRange keys) {
  if (queries.begin >= queries.end) return {};
  const FlashRange seen = visible_keys(mask, queries);
  const int64_t begin = seen.begin < keys.begin ? keys.begin : seen.begin;
  const int64_t end = seen.end < keys.end ? seen.end : keys.end;
  if (begin >= end) return {};
  return {(begin - keys.begin) / kBlock, (end - keys.begin + kBlock - 1) / kBlock};
}

FlashRange block_of(FlashRange range, int64_t block) {
  const int64_t begin = range.begin + block * kBlock;
  return {begin, begin + kBlock < range.end ? begin + kBlock : range.end};
}

// Turns scores of a block into weights, and gradients of weights into gradients of scores, in place
// and with a score function.
void differentiate_block(const BackwardScratch& at, const FlashBackwardHead& head, int64_t query,
                         const FlashScores& place) {
  const Wide wide;
  const Floats scale = hn::Set(wide, head.scale);
  for (int64_t row = 0; row < kBlock; ++row) {
    const Floats log_sum_exp = hn::Set(wide, at.log_sum_exp[query + row]);
    const Floats delta = hn::Set(wide, at.delta[query + row]);
    for (int64_t i = row * kBlock; i < (row + 1) * kBlock; i += kLanes) {
      const Floats d_weight = hn::Mul(hn::LoadU(wide, at.d_weights + i), scale);
      const auto found =
          score_gradient<true>(hn::LoadU(wide, at.scores + i), scale, log_sum_exp, d_weight, delta);
      hn::StoreU(found.weight, wide, at.scores + i);
      hn::StoreU(found.gradient, wide, at.d_weights + i);
    }
  }
  head.function.differentiate(head.function, place, at.raw_scores, at.d_weights);
  // Beyond the last key f may have no finite derivative, and 0 times infinity is not 0.
  for (int64_t column = place.columns.end - place.columns.begin; column < kBlock; ++column)
    for (int64_t row = 0; row < kBlock; ++row) at.d_weights[row * kBlock + column] = 0.0f;
}

enum class Scores { plain, masked, differentiated };

// For a block of 32 queries and 32 keys: turns scores into weights, and gradients of weights into
// gradients of scores, and packs both.
template <Scores kScores>
RIDGELINE_WITH_DOTS HWY_INLINE void find_block_gradients(const BackwardScratch& at,
                                                         float scale_factor, int64_t query,
                                                         int64_t key_block) {
  const Wide wide;
  const Floats scale = hn::Set(wide, scale_factor);
  const int64_t panel = key_block * (kQueryTile / 2 * kBlock) + query / 2 * kBlock;
  uint32_t* weights = at.weights + panel;
  uint32_t* d_scores = at.d_scores + panel;
  uint16_t* rows = at.d_score_rows + (key_block * kQueryTile + query) * kBlock;
  for (int64_t row = 0; row < kBlock; row += 2) {
    WeightAndGradient found[2][2];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const Floats log_sum_exp = hn::Set(wide, at.log_sum_exp[query + row + r]);
      const Floats delta = hn::Set(wide, at.delta[query + row + r]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const int64_t place = (row + r) * kBlock + half * kLanes;
        const Floats score = hn::LoadU(wide, at.scores + place);
        const Floats d_weight = hn::LoadU(wide, at.d_weights + place);
        if constexpr (kScores == Scores::differentiated)
          found[r][half] = {score, d_weight};
        else
          found[r][half] = score_gradient<kScores == Scores::masked>(
              score, scale, log_sum_exp, hn::Mul(d_weight, scale), delta);
      }
      const __m512bh both = _mm512_cvtne2ps_pbh(found[r][1].gradient.raw, found[r][0].gradient.raw);
      _mm512_storeu_si512(rows + (row + r) * kBlock, reinterpret_cast<__m512i>(both));
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const int64_t place = row / 2 * kBlock + half * kLanes;
      _mm512_storeu_si512(weights + place,
                          rounded_pairs(found[0][half].weight.raw, found[1][half].weight.raw));
      _mm512_storeu_si512(d_scores + place,
                          rounded_pairs(found[0][half].gradient.raw, found[1][half].gradient.raw));
    }
  }
}

// Transposes panels of head_dim x kBlock and stores the rows.
void store_transposed(const float* panels, const FlashRows& to, FlashRange range, int64_t head_dim,
                      float* rows) {
  for (int64_t row = range.begin; row < range.end; row += 16) {
    const int64_t place = row - range.begin;
    const float* panel = panels + place / kBlock * (head_dim * kBlock) + place % kBlock;
    for (int64_t column = 0; column < head_dim; column += 16)
      transpose_block(Wide(), panel + column * kBlock, kBlock, 16, 1.0f, rows + column, head_dim);
    const int64_t end = row + 16 < range.end ? row + 16 : range.end;
    store_rows(rows, head_dim, nullptr, to, {row, end}, head_dim);
  }
}

void pack_keys(const FlashBackwardHead& head, FlashRange keys, const BackwardScratch& at) {
  pack_along_head(head.k, keys, head.head_dim, at.key_words);
  pack_along_head(head.v, keys, head.head_dim, at.value_words);
  pack_pairs_of_rows(head.k, keys, head.head_dim, at.key_pairs);
}

void begin_blocks_of_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch) {
  const auto at = carve<BackwardScratch>(scratch, head.head_dim);
  pack_keys(head, keys, at);
  const int64_t sums = round_up(keys.end - keys.begin, kBlock) * head.head_dim;
  fill(at.d_keys, sums, 0.0f);
  fill(at.d_values, sums, 0.0f);
}

template <class Unit>
RIDGELINE_WITH_UNITS void find_score_gradients_by(const FlashBackwardHead& head, FlashRange keys,
                                                  FlashRange queries, float* scratch) {
  const int64_t head_dim = head.head_dim;
  const auto at = carve<BackwardScratch>(scratch, head_dim);
  const int64_t count = queries.end - queries.begin;
  for (int64_t i = 0; i < round_up(count, kBlock); ++i) {
    at.log_sum_exp[i] = i < count ? head.row_log_sum_exp[queries.begin + i] : 0.0f;
    at.delta[i] = i < count ? head.delta[queries.begin + i] : 0.0f;
  }
  const HalfRows q = whole_blocks(head.q, queries, head_dim, at.copied_queries);
  const HalfRows d_out = whole_blocks(head.d_out, queries, head_dim, at.copied_d_out);
  constexpr int64_t kBytes = kBlock * 4;
  Unit::begin();
  for (int64_t query = 0; query < count; query += kBlock) {
    const FlashRange block = block_of(queries, query / kBlock);
    const FlashRange seen = seen_blocks(head.mask, block, keys);
    for (int64_t i = seen.begin; i < seen.end; ++i) {
      const int64_t panel = i * (head_dim / 2 * kBlock);
      Unit::multiply({.a = q.from(query),
                      .b = {at.key_words + panel},
                      .c = {at.scores, kBytes},
                      .steps = head_dim / kBlock});
      Unit::multiply({.a = d_out.from(query),
                      .b = {at.value_words + panel},
                      .c = {at.d_weights, kBytes},
                      .steps = head_dim / kBlock});
      const FlashRange key_block = block_of(keys, i);
      const FlashRange whole = {key_block.begin, key_block.begin + kBlock};
      const FlashScores place = {block, key_block, false, kBlock};
      const bool has_function = head.function.apply != nullptr;
      if (has_function) {
        copy(at.scores, at.raw_scores, kBlock * kBlock);
        head.function.apply(head.function, place, at.scores);
      }
      if (!has_function && key_block.end == whole.end && all_visible(head.mask, block, key_block)) {
        find_block_gradients<Scores::plain>(at, head.scale, query, i);
      } else {
        // Keys beyond the end of the tile are masked as well.
        FlashMask mask = head.mask;
        if (mask.keys > keys.end) mask.keys = keys.end;
        hide_queries_by_keys(mask, block, whole, at.scores, kBlock);
        if (has_function) {
          differentiate_block(at, head, query, place);
          find_block_gradients<Scores::differentiated>(at, head.scale, query, i);
        } else {
          find_block_gradients<Scores::masked>(at, head.scale, query, i);
        }
      }
    }
  }
  Unit::end();
}

template <class Unit>
RIDGELINE_WITH_UNITS void add_queries_by(const FlashBackwardHead& head, FlashRange keys,
                                         FlashRange queries, bool /*first*/, float* scratch) {
  const int64_t head_dim = head.head_dim;
  const auto at = carve<BackwardScratch>(scratch, head_dim);
  pack_transposed(head.q, queries, head_dim, at.queries);
  pack_transposed(head.d_out, queries, head_dim, at.d_out);
  const int64_t query_blocks = round_up(queries.end - queries.begin, kBlock) / kBlock;
  FlashRange seen[kQueryBlocks];
  for (int64_t block = 0; block < query_blocks; ++block)
    seen[block] = seen_blocks(head.mask, block_of(queries, block), keys);
  const int64_t key_blocks = round_up(keys.end - keys.begin, kBlock) / kBlock;
  constexpr int64_t kBytes = kBlock * 4;
  Unit::begin();
  for (int64_t i = 0; i < key_blocks; ++i) {
    const auto sees = [&](int64_t block) { return seen[block].begin <= i && i < seen[block].end; };
    int64_t begin = 0, end = query_blocks;
    while (begin < end && !sees(begin)) ++begin;
    while (end > begin && !sees(end - 1)) --end;
    if (begin == end) continue;
    const int64_t panel = i * (kQueryTile / 2 * kBlock) + begin * kPairs * kBlock;
    for (int64_t column = 0; column < head_dim; column += kBlock) {
      const int64_t from = (begin * head_dim + column) * kBlock;
      const int64_t to = (i * head_dim + column) * kBlock;
      Unit::multiply({.a = {at.d_out + from, kBlock * 2, head_dim * kBlock * 2},
                      .b = {at.weights + panel},
                      .c = {at.d_values + to, kBytes},
                      .steps = end - begin,
                      .accumulate = true});
      Unit::multiply({.a = {at.queries + from, kBlock * 2, head_dim * kBlock * 2},
                      .b = {at.d_scores + panel},
                      .c = {at.d_keys + to, kBytes},
                      .steps = end - begin,
                      .accumulate = true});
    }
  }
  Unit::end();
}

template <class Unit>
RIDGELINE_WITH_UNITS void add_query_gradient_by(const FlashBackwardHead& head, FlashRange keys,
                                                FlashRange queries, float* accumulator,
                                                int64_t row_stride, bool first, float* scratch) {
  const int64_t head_dim = head.head_dim;
  const auto at = carve<BackwardScratch>(scratch, head_dim);
  Unit::begin();
  const int64_t query_blocks = round_up(queries.end - queries.begin, kBlock) / kBlock;
  for (int64_t block = 0; block < query_blocks; ++block) {
    const FlashRange seen = seen_blocks(head.mask, block_of(queries, block), keys);
    float* to = accumulator + block * kBlock * row_stride;
    if (seen.begin == seen.end) {
      if (first)
        for (int64_t row = 0; row < kBlock; ++row) fill(to + row * row_stride, head_dim, 0.0f);
      continue;
    }
    const BlockRows rows = {at.d_score_rows + (seen.begin * kQueryTile + block * kBlock) * kBlock,
                            kBlock * 2, kQueryTile * kBlock * 2};
    for (int64_t column = 0; column < head_dim; column += kBlock)
      Unit::multiply({.a = rows,
                      .b = {at.key_pairs + column / kBlock * (kMostKeys / 2 * kBlock) +
                            seen.begin * kPairs * kBlock},
                      .c = {to + column, row_stride * 4},
                      .steps = seen.end - seen.begin,
                      .accumulate = !first});
  }
  Unit::end();
}

void finish_blocks_of_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch) {
  const auto at = carve<BackwardScratch>(scratch, head.head_dim);
  store_transposed(at.d_keys, head.d_k, keys, head.head_dim, at.sums);
  store_transposed(at.d_values, head.d_v, keys, head.head_dim, at.sums);
}

template <class Unit>
void query_gradient_by(const FlashBackwardHead& head, FlashRange queries, float* scratch) {
  const auto at = carve<BackwardScratch>(scratch, head.head_dim);
  const FlashRange visible = visible_keys(head.mask, queries);
  bool first = true;
  for (int64_t key = visible.begin; key < visible.end; key += kMostKeys) {
    const FlashRange keys = {key, key + kMostKeys < visible.end ? key + kMostKeys : visible.end};
    if (!is_seen(head.function, {queries, keys, false, kMostKeys})) continue;
    pack_keys(head, keys, at);
    find_score_gradients_by<Unit>(head, keys, queries, scratch);
    add_query_gradient_by<Unit>(head, keys, queries, at.sums, head.head_dim, first, scratch);
    first = false;
  }
  if (first) fill(at.sums, kQueryTile * head.head_dim, 0.0f);
  store_rows(at.sums, head.head_dim, nullptr, head.d_q, queries, head.head_dim);
}

template <class Unit>
constexpr FlashBackwardKernels kBackwardBy = {.tiles = {.queries = kQueryTile, .keys = kMostKeys},
                                              .scratch_floats = floats_of<BackwardScratch>,
                                              .prepare_queries = prepare_queries,
                                              .query_gradient = query_gradient_by<Unit>,
                                              .begin_keys = begin_blocks_of_keys,
                                              .find_score_gradients = find_score_gradients_by<Unit>,
                                              .add_queries = add_queries_by<Unit>,
                                              .add_query_gradient = add_query_gradient_by<Unit>,
                                              .finish_keys = finish_blocks_of_keys,
                                              .padded_head_dim = padded_head_dim,
                                              .store_rows = store_rows};

}  // namespace

const FlashBackwardKernels kBackwardByMatrixUnits = kBackwardBy<MatrixUnits>;
const FlashBackwardKernels kBackwardByDots = kBackwardBy<DotUnits>;

}  // namespace ridgeline::RIDGELINE_ISA

#endif

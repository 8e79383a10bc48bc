// Flash attention forward for bf16 in blocks (bf16_units.h): the tiling and softmax of
// flash_forward.cc, with both products in bf16.
//
// Scores are keys x queries, so keys are read in place and the weights of two adjacent keys form a
// word without a transposition; the output is summed as head_dim x queries.
#include "kernels/cpu/simd/flash_softmax.h"

#if HWY_TARGET <= HWY_AVX3
#include "kernels/cpu/simd/flash_blocks.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kQueryTile = 128;
inline constexpr int64_t kKeyTile = 256;

// A block of 32 queries goes through scores, softmax and sums before the next, so that its scores
// and weights stay in the L1 cache. Blocks of packed queries and sums follow each other.
struct BlockScratch {
  uint32_t* queries;  // packed: per block head_dim / 2 x kBlock words
  float* scores;      // kKeyTile x kBlock
  uint32_t* weights;  // packed, kKeyTile / 2 x kBlock words
  uint16_t* keys;     // a tile, padded with zeros
  uint16_t* values;   // values transposed: per block of keys head_dim x kBlock
  float* sums;        // per block head_dim x kBlock: the unnormalised output, transposed
  RunningSoftmax running;

  static BlockScratch carve(Scratch& scratch, int64_t head_dim) {
    const auto words = [&](int64_t count) {
      return reinterpret_cast<uint32_t*>(scratch.take(count));
    };
    const auto halves = [&](int64_t count) {
      return reinterpret_cast<uint16_t*>(scratch.take(count / 2));
    };
    return {.queries = words(head_dim / 2 * kQueryTile),
            .scores = scratch.take(kKeyTile * kBlock),
            .weights = words(kKeyTile / 2 * kBlock),
            .keys = halves(kKeyTile * head_dim),
            .values = halves(head_dim * kKeyTile),
            .sums = scratch.take(head_dim * kQueryTile),
            .running = {.maximum = scratch.take(kQueryTile),
                        .normalizer = scratch.take(kQueryTile),
                        .rescale = scratch.take(kQueryTile)}};
  }
};

// Blocks of `rows` are one below the other in operands and sums.
template <class Unit>
RIDGELINE_WITH_UNITS void multiply_blocks(BlockRows a, const uint32_t* b, float* c, int64_t rows,
                                          int64_t depth, bool accumulate) {
  const char* from = static_cast<const char*>(a.data);
  for (int64_t row = 0; row < rows; row += kBlock)
    Unit::multiply({.a = {from + row * a.bytes, a.bytes, a.step},
                    .b = {b},
                    .c = {c + row * kBlock, kBlock * 4},
                    .steps = depth / kBlock,
                    .accumulate = accumulate});
}

template <bool kMasked>
bool scores_to_weights(const RunningSoftmax& running, const float* scores, float scale2,
                       int64_t keys, uint32_t* to) {
  return softmax_step<kMasked, 2>(running, {scores, kBlock, kBlock, keys}, scale2,
                                  [to](int64_t query, int64_t key, const Floats* weights) {
                                    _mm512_storeu_si512(
                                        to + key / 2 * kBlock + query,
                                        rounded_pairs(weights[0].raw, weights[1].raw));
                                  });
}

void rescale_sums(const float* rescale, float* sums, int64_t head_dim) {
  const Wide wide;
  const Floats left = hn::LoadU(wide, rescale);
  const Floats right = hn::LoadU(wide, rescale + kLanes);
  for (float* row = sums; row < sums + head_dim * kBlock; row += kBlock) {
    hn::StoreU(hn::Mul(hn::LoadU(wide, row), left), wide, row);
    hn::StoreU(hn::Mul(hn::LoadU(wide, row + kLanes), right), wide, row + kLanes);
  }
}

// Transposes the sums back, 16 queries at a time, and writes the normalised rows.
void store_output(const BlockScratch& at, const FlashForwardTile& tile, int64_t queries) {
  const Wide wide;
  float* rows = reinterpret_cast<float*>(at.values);  // no longer in use
  for (int64_t query = 0; query < queries; query += 16) {
    const float* sums = at.sums + query / kBlock * (tile.head_dim * kBlock) + query % kBlock;
    for (int64_t column = 0; column < tile.head_dim; column += 16)
      transpose_block(wide, sums + column * kBlock, kBlock, 16, 1.0f, rows + column, tile.head_dim);
    const int64_t begin = tile.queries.begin + query;
    const int64_t end = begin + 16 < tile.queries.end ? begin + 16 : tile.queries.end;
    store_rows(rows, tile.head_dim, at.running.rescale + query, tile.out, {begin, end},
               tile.head_dim);
  }
}

// One block of queries against the keys that it sees of one tile, padded to whole blocks.
template <class Unit>
RIDGELINE_WITH_UNITS void attend_block(const BlockScratch& at, const FlashForwardTile& tile,
                                       int64_t block, FlashRange keys, HalfRows k) {
  const int64_t head_dim = tile.head_dim;
  const int64_t begin = tile.queries.begin + block * kBlock;
  const FlashRange queries = {
      begin, begin + kBlock < tile.queries.end ? begin + kBlock : tile.queries.end};
  const FlashRange visible = visible_keys(tile.mask, queries);
  if (visible.end <= keys.begin || keys.end <= visible.begin) return;
  if (visible.end < keys.end) keys.end = visible.end;
  const FlashScores place = {keys, queries, true, kBlock};
  if (!is_seen(tile.function, place)) return;
  const int64_t count = keys.end - keys.begin;
  const int64_t padded = round_up(count, kBlock);
  const float scale2 = __builtin_fabsf(tile.scale) * kLog2E;
  const RunningSoftmax running = {at.running.maximum + block * kBlock,
                                  at.running.normalizer + block * kBlock,
                                  at.running.rescale + block * kBlock};
  float* sums = at.sums + block * kBlock * head_dim;
  multiply_blocks<Unit>(k.from(0), at.queries + block * kBlock * head_dim / 2, at.scores, padded,
                        head_dim, false);
  const bool has_function = tile.function.apply != nullptr;
  if (has_function) tile.function.apply(tile.function, place, at.scores);
  bool moved = false;
  if (!has_function && count == padded && all_visible(tile.mask, queries, keys)) {
    moved = scores_to_weights<false>(running, at.scores, scale2, padded, at.weights);
  } else {
    hide_keys_by_queries(tile.mask, queries, keys, at.scores, kBlock);
    fill(at.scores + count * kBlock, (padded - count) * kBlock, -__builtin_inff());
    moved = scores_to_weights<true>(running, at.scores, scale2, padded, at.weights);
  }
  if (moved) rescale_sums(running.rescale, sums, head_dim);
  multiply_blocks<Unit>({at.values, kBlock * 2, head_dim * kBlock * 2}, at.weights, sums, head_dim,
                        padded, true);
}

template <class Unit>
RIDGELINE_WITH_UNITS void forward_in_blocks(const FlashForwardTile& tile, float* scratch) {
  const auto at = carve<BlockScratch>(scratch, tile.head_dim);
  Unit::begin();
  const int64_t head_dim = tile.head_dim;
  const int64_t queries = tile.queries.end - tile.queries.begin;
  const int64_t lanes = round_up(queries, kBlock);
  begin_softmax(at.running, lanes);
  fill(at.sums, head_dim * lanes, 0.0f);
  pack_along_head(tile.q, tile.queries, head_dim, at.queries, tile.scale < 0.0f);
  const FlashRange visible = visible_keys(tile.mask, tile.queries);
  for (int64_t key = visible.begin; key < visible.end; key += kKeyTile) {
    const FlashRange keys = {key, key + kKeyTile < visible.end ? key + kKeyTile : visible.end};
    const HalfRows k = whole_blocks(tile.k, keys, head_dim, at.keys);
    pack_transposed(tile.v, keys, head_dim, at.values);
    for (int64_t block = 0; block < lanes / kBlock; ++block)
      attend_block<Unit>(at, tile, block, keys, k);
  }
  Unit::end();
  end_softmax(at.running, tile);
  store_output(at, tile, queries);
}

template <class Unit>
constexpr FlashForwardKernel kForwardBy = {.tiles = {.queries = kQueryTile, .keys = kKeyTile},
                                           .scratch_floats = floats_of<BlockScratch>,
                                           .run = forward_in_blocks<Unit>};

}  // namespace

const FlashForwardKernel kForwardByMatrixUnits = kForwardBy<MatrixUnits>;
const FlashForwardKernel kForwardByDots = kForwardBy<DotUnits>;

}  // namespace ridgeline::RIDGELINE_ISA

#endif

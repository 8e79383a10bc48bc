// Attention forward with mma.sync, without a score matrix: a block keeps a tile of queries and loops over the keys.
//
// Constants beside those of flash_common.cuh: ROWS (queries of a block), KEYS (of a step), WARPS, STAGES (tiles of keys
// and of values in shared memory; 1: their loads alternate), BLOCKS (that a multiprocessor should hold).
#include "flash_softmax.cuh"

namespace ridgeline {

constexpr int kRows = ROWS, kKeys = KEYS, kWarps = WARPS, kStages = STAGES;
constexpr int kThreads = 32 * kWarps;
constexpr int kM = kRows / (16 * kWarps);    // 16-row tiles of a warp
constexpr int kScoreTiles = kKeys / 8;
constexpr int kOutputTiles = kHeadDim / 8;
constexpr int kTileBytes = Rows::bytes(kKeys);

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_forward(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const BlockTile own(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = own.tile * kRows;
  const int warp_row = warp() * 16 * kM;
  const int key_head = own.head / p.group;
  const Inputs queries(p.q, own.batch, own.head);
  const Inputs keys(p.k, own.batch, key_head);
  const Inputs values(p.v, own.batch, key_head);
  const int head_number = own.batch * p.heads + own.head;
  const int key_head_number = head_number / p.group;
  const Factors q_factors(p.q_factors, head_number, p.queries);
  const Factors k_factors(p.k_factors, key_head_number, p.keys);
  const Factors v_factors(p.v_factors, key_head_number, p.keys);
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};

  // The keys that any query of this block sees.
  const int last_query = min(first_query + kRows, p.queries) - 1;
  const int begin = visible.keys_of(first_query).first / kKeys * kKeys;
  const int end = visible.keys_of(last_query).last;

  const Rows q_tile{shared_address()};
  const unsigned ring = q_tile.address + Rows::bytes(kRows);
  const auto k_tile = [&](int stage) { return Rows{ring + stage * 2 * kTileBytes}; };
  const auto v_tile = [&](int stage) { return Rows{ring + stage * 2 * kTileBytes + kTileBytes}; };
  const auto load_keys = [&](int stage, int key) {
    if (key < end) load_rows<kKeys, kThreads>(k_tile(stage), keys, key, p.keys);
  };
  const auto load_values = [&](int stage, int key) {
    if (key < end) load_rows<kKeys, kThreads>(v_tile(stage), values, key, p.keys);
  };

  load_rows<kRows, kThreads>(q_tile, queries, first_query, p.queries);
  load_keys(0, begin);
  if (kStages > 1) load_values(0, begin);
  commit_copies();
#pragma unroll
  for (int stage = 1; stage < kStages - 1; ++stage) {
    load_keys(stage, begin + stage * kKeys);
    load_values(stage, begin + stage * kKeys);
    commit_copies();
  }

  Accumulator output[kM][kOutputTiles] = {};
  RunningSoftmax<kM> softmax(
      [&](int m) { return p.scale_log2 * (kFunction ? 1 : q_factors(first_query + warp_row + 16 * m, p.queries)); });

  int stage = 0;
  if (begin >= end) {  // no key is visible, but the queries must have arrived before results are staged in their tile
    wait_for_copies<0>();
    __syncthreads();
  }
  for (int key = begin; key < end; key += kKeys) {
    wait_for_copies<kStages == 1 ? 0 : kStages - 2>();
    __syncthreads();
    if (kStages == 1) {
      load_values(0, key);
    } else {
      const int next = (stage + kStages - 1) % kStages;
      load_keys(next, key + (kStages - 1) * kKeys);
      load_values(next, key + (kStages - 1) * kKeys);
    }
    commit_copies();
    float k_factor[kKeys / 16], v_factor[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      k_factor[i] = k_factors(key + 16 * i, p.keys);
      v_factor[i] = v_factors(key + 16 * i, p.keys);
    }

    Accumulator scores[kM][kScoreTiles] = {};
    multiply_tiles<Element, kHeadDim / kStep>(
        scores,
        [&](FragmentA<Element>(&a)[kM], int step) {
#pragma unroll
          for (int m = 0; m < kM; ++m) a[m] = load_a(q_tile, warp_row + 16 * m, step * kStep);
        },
        [&](FragmentB<Element>(&b)[2], int step, int n) {
          load_b_pair(b, k_tile(stage), 8 * n, step * kStep);
        });
    if (kStages == 1) {  // loads alternate: of values while keys are used, and the other way round
      wait_for_copies<0>();
      __syncthreads();
      load_keys(0, key + kKeys);
      commit_copies();
    }

    if (!kIs16Bit)
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) scores[m][n].v[i] *= k_factor[n / 2];

    const int warp_query = first_query + warp_row;
    apply_function(scores, p, own, warp_query, key, [&](int m) { return q_factors(warp_query + 16 * m, p.queries); });
    const Span common = {visible.keys_of(warp_query + 16 * kM - 1).first, visible.keys_of(warp_query).last};
    if (!common.covers(key, key + kKeys))
      mask_scores(scores, warp_query, key, [&](int query) { return visible.keys_of(query); });

    if (softmax.raise(scores)) softmax.rescale(output);
    softmax.weigh(scores);
    multiply_tiles<Element, kKeys / kStep, false>(
        output,
        [&](FragmentA<Element>(&a)[kM], int step) {
#pragma unroll
          for (int m = 0; m < kM; ++m) a[m] = a_from_results<Element>(scores[m], step);
        },
        [&](FragmentB<Element>(&b)[2], int step, int n) {
          load_b_pair_transposed(b, v_tile(stage), step * kStep, 8 * n);
        },
        [&](int, int step) { return v_factor[step]; });
    stage = (stage + 1) % kStages;
  }

  const BlockTile same(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  finish_rows(p, same, softmax, output, q_tile, kRows, warp_row);
}

}  // namespace ridgeline

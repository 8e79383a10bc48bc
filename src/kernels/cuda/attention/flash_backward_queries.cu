// The second of two backward passes with mma.sync: dQ. A block keeps a tile of queries and loops over the keys that
// they see. No two blocks add to the same result, so that every run gives the same bits.
//
// Constants beside those of flash_common.cuh: QUERIES (of a block), KEYS (of a step), WARPS, STAGES (tiles of keys and
// of values in shared memory), BLOCKS (that a multiprocessor should hold).
#include "flash_common.cuh"

namespace ridgeline {

constexpr int kQueries = QUERIES, kKeys = KEYS, kWarps = WARPS, kStages = STAGES;
constexpr int kThreads = 32 * kWarps;
constexpr int kM = kQueries / (16 * kWarps);
constexpr int kScoreTiles = kKeys / 8;
constexpr int kOutputTiles = kHeadDim / 8;
constexpr int kTileBytes = Rows::bytes(kKeys);

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_backward_queries(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const BlockTile own((p.queries + kQueries - 1) / kQueries, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = own.tile * kQueries;
  const int warp_row = warp() * 16 * kM;
  const int key_head = own.head / p.group;
  const Inputs keys(p.k, own.batch, key_head);
  const Inputs values(p.v, own.batch, key_head);
  const int head_number = own.batch * p.heads + own.head;
  const int key_head_number = head_number / p.group;
  const Factors q_factors(p.q_factors, head_number, p.queries);
  const Factors d_out_factors(p.d_out_factors, head_number, p.queries);
  const Factors k_factors(p.k_factors, key_head_number, p.keys);
  const Factors v_factors(p.v_factors, key_head_number, p.keys);
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const int last_query = min(first_query + kQueries, p.queries) - 1;
  const int begin = visible.keys_of(first_query).first / kKeys * kKeys;
  const int end = visible.keys_of(last_query).last;

  const Rows q_tile{shared_address()}, d_out_tile{q_tile.address + Rows::bytes(kQueries)};
  const unsigned ring = d_out_tile.address + Rows::bytes(kQueries);
  const auto k_tile = [&](int stage) { return Rows{ring + stage * 2 * kTileBytes}; };
  const auto v_tile = [&](int stage) { return Rows{ring + stage * 2 * kTileBytes + kTileBytes}; };
  const auto load_step = [&](int stage, int key) {
    if (key < end) {
      load_rows<kKeys, kThreads>(k_tile(stage), keys, key, p.keys);
      load_rows<kKeys, kThreads>(v_tile(stage), values, key, p.keys);
    }
    commit_copies();
  };
  load_rows<kQueries, kThreads>(q_tile, Inputs(p.q, own.batch, own.head), first_query, p.queries);
  load_rows<kQueries, kThreads>(d_out_tile, Inputs(p.d_out_planes, own.batch, own.head), first_query, p.queries);
  load_step(0, begin);

  float shift[kM][2], delta[kM][2], scale[kM], q_factor[kM], d_out_factor[kM];
  const long long rows = static_cast<long long>(head_number) * p.padded_queries;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    q_factor[m] = q_factors(first_query + warp_row + 16 * m, p.queries);
    scale[m] = p.scale_log2 * (kFunction ? 1 : q_factor[m]);
    d_out_factor[m] = d_out_factors(first_query + warp_row + 16 * m, p.queries);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = first_query + warp_row + 16 * m + lane() / 4 + 8 * i;
      const bool present = query < p.queries;
      shift[m][i] = present ? p.row_shift[rows + query] : infinity();
      delta[m][i] = present ? p.delta[rows + query] : 0;
    }
  }

  Accumulator d_q[kM][kOutputTiles] = {};
  int stage = 0;
  if (begin >= end) {  // no key is visible, but the queries must have arrived before results are staged in their tile
    wait_for_copies<0>();
    __syncthreads();
  }
  for (int key = begin; key < end; key += kKeys) {
    wait_for_copies<0>();
    __syncthreads();
    if (kStages == 2) load_step(stage ^ 1, key + kKeys);

    float k_factor[kKeys / 16], v_factor[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      k_factor[i] = k_factors(key + 16 * i, p.keys);
      v_factor[i] = v_factors(key + 16 * i, p.keys);
    }
    Accumulator weights[kM][kScoreTiles] = {}, d_scores[kM][kScoreTiles] = {};
    const auto multiply_rows = [&](Accumulator(&result)[kM][kScoreTiles], Rows left, Rows right) {
      multiply_tiles<Element, kHeadDim / kStep>(
          result,
          [&](FragmentA<Element>(&a)[kM], int step) {
#pragma unroll
            for (int m = 0; m < kM; ++m) a[m] = load_a(left, warp_row + 16 * m, step * kStep);
          },
          [&](FragmentB<Element>(&b)[2], int step, int n) { load_b_pair(b, right, 8 * n, step * kStep); });
    };
    multiply_rows(weights, q_tile, k_tile(stage));
    const int warp_query = first_query + warp_row;
    const Span common = {visible.keys_of(warp_query + 16 * kM - 1).first, visible.keys_of(warp_query).last};
    if (!common.covers(key, key + kKeys))
      mask_scores(weights, warp_query, key, [&](int query) { return visible.keys_of(query); });
    multiply_rows(d_scores, d_out_tile, v_tile(stage));
    float plane_scale[kM];  // the factors that scale gradients of scores for planes, then their inverses
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      float largest = 0;
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float product = weights[m][n].v[i] * k_factor[n / 2];
          const float d_weight = d_scores[m][n].v[i] * (v_factor[n / 2] * d_out_factor[m]);
          float& d_score = d_scores[m][n].v[i];
          const ScorePlace at = {p.operands, own.batch, own.head,
                                 min(warp_query + 16 * m + row_in_tile(i), p.queries - 1),
                                 min(key + 8 * n + column_in_tile(i), p.keys - 1)};
          const bool masked = kFunction && product == -infinity();
          const float score = kFunction && !masked ? score_value(at, product * q_factor[m]) : product;
          d_score = exp2(at_most(score * scale[m] - shift[m][i / 2], 0)) * (d_weight - delta[m][i / 2]);
          if (kFunction) d_score = masked ? 0 : score_gradient(at, product * q_factor[m], d_score);
          largest = fmaxf(largest, fabsf(d_score));
        }
      plane_scale[m] = kIs16Bit ? 1 : scale_to_top(warp_max(largest));
      if (!kIs16Bit)
#pragma unroll
        for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) d_scores[m][n].v[i] *= plane_scale[m];
      plane_scale[m] = inverse_power(plane_scale[m]);
    }

    multiply_tiles<Element, kKeys / kStep, false>(
        d_q,
        [&](FragmentA<Element>(&a)[kM], int step) {
#pragma unroll
          for (int m = 0; m < kM; ++m) a[m] = a_from_results<Element>(d_scores[m], step);
        },
        [&](FragmentB<Element>(&b)[2], int step, int n) {
          load_b_pair_transposed(b, k_tile(stage), step * kStep, 8 * n);
        },
        [&](int m, int step) { return k_factor[step] * plane_scale[m]; });
    if (kStages == 1) {
      __syncthreads();
      load_step(0, key + kKeys);
    } else {
      stage ^= 1;
    }
  }

  const Outputs out(p.d_q, own.batch, own.head);
  put_results(d_q, q_tile, out, first_query, p.queries, warp_row, 0, [&](int, int) { return p.scale; });
  __syncwarp();
  store_rows<16 * kM>(q_tile, out, first_query, p.queries, warp_row);
}

}  // namespace ridgeline

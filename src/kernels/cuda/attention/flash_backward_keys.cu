// Attention backward with mma.sync: dK and dV, and in a single pass dQ as well. A block keeps a tile of keys and loops
// over the queries that see it.
//
// Scores are computed transposed, keys x queries, so that P and dS are already in registers as the left operands of dV
// = P^T dO and dK = dS^T Q. With SPLIT 2 or 4, that many warps share their keys: each has a part of the queries and a
// part of the width, and P and dS pass through shared memory. Wide heads need this to fit the registers.
//
// Constants beside those of flash_common.cuh: QUERIES (of a step), KEYS (of a block), WARPS, STAGES (tiles of queries
// in shared memory), SPLIT, SINGLE_PASS (dQ is computed as well), BLOCKS (that a multiprocessor should hold).
#include "flash_common.cuh"
#include "flash_query_sums.cuh"

namespace ridgeline {

constexpr int kQueries = QUERIES, kKeys = KEYS, kWarps = WARPS, kStages = STAGES, kSplit = SPLIT;
constexpr bool kSinglePass = SINGLE_PASS;
constexpr int kThreads = 32 * kWarps;
constexpr int kM = kKeys * kSplit / (16 * kWarps);  // 16-key tiles of a warp
// Queries are divided into parts of at least 16; with fewer parts than SPLIT, two warps compute the same part.
constexpr int kParts = kQueries / 16 < kSplit ? kQueries / 16 : kSplit;
constexpr int kPart = kQueries / kParts;  // queries of a warp
constexpr int kPartTiles = kPart / 8;
constexpr int kPartWidth = kHeadDim / kSplit;  // columns of dK and dV of a warp
constexpr int kWidthTiles = kPartWidth / 8;

using Weights = Tile<Element, kQueries>;  // keys x queries
constexpr int kKeyBytes = Rows::bytes(kKeys);
constexpr int kQueryBytes = Rows::bytes(kQueries);
constexpr int kStageBytes = 2 * kQueryBytes + 2 * 4 * kQueries;
constexpr int kPlaneScaleBytes = kIs16Bit ? 0 : (kKeys / 16 * kSplit + 3) / 4 * 16;
constexpr float kTop = kIs16Bit ? 0 : 14;  // weights start at the top of the range of planes

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_backward_keys(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const BlockTile own(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false);
  const int first_key = own.tile * kKeys;
  const int warp_key = warp() / kSplit * 16 * kM;
  const int part = warp() % kSplit % kParts;
  const int part_query = part * kPart;
  const int part_column = warp() % kSplit * kPartWidth;
  const int key_head_number = own.batch * p.key_heads + own.head;
  const Factors k_factors(p.k_factors, key_head_number, p.keys);
  const Factors v_factors(p.v_factors, key_head_number, p.keys);
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};

  // The tiles of queries that see a key of this block; the same for each head of the group.
  const int last_key = min(first_key + kKeys, p.keys) - 1;
  const int begin = visible.queries_of(first_key).first / kQueries;
  const int end = (visible.queries_of(last_key).last + kQueries - 1) / kQueries;
  const int steps = max(end - begin, 0) * p.group;

  const Rows k_tile{shared_address()}, v_tile{shared_address() + kKeyBytes};
  const unsigned ring = v_tile.address + kKeyBytes;
  // The factors of d_score_tile, for each 16 keys and each part of the queries.
  const unsigned plane_scales = ring + kStages * kStageBytes;
  const Weights d_score_tile{plane_scales + kPlaneScaleBytes};
  const Weights weight_tile{d_score_tile.address + Weights::bytes(kKeys)};

  const auto load_step = [&](int step) {
    if (step < steps) {
      const unsigned stage = ring + step % kStages * kStageBytes;
      const int head = own.head * p.group + step / (end - begin);
      const int query = (begin + step % (end - begin)) * kQueries;
      load_rows<kQueries, kThreads>(Rows{stage}, Inputs(p.q, own.batch, head), query, p.queries);
      load_rows<kQueries, kThreads>(Rows{stage + kQueryBytes}, Inputs(p.d_out_planes, own.batch, head), query,
                                    p.queries);
      const long long row = (static_cast<long long>(own.batch) * p.heads + head) * p.padded_queries + query;
      const unsigned to = stage + 2 * kQueryBytes;
      for (int i = threadIdx.x; i < kQueries / 4; i += kThreads) {
        copy_chunk(to + 16 * i, p.row_shift + row + 4 * i);
        copy_chunk(to + 4 * kQueries + 16 * i, p.delta + row + 4 * i);
      }
    }
    commit_copies();
  };

  load_rows<kKeys, kThreads>(k_tile, Inputs(p.k, own.batch, own.head), first_key, p.keys);
  load_rows<kKeys, kThreads>(v_tile, Inputs(p.v, own.batch, own.head), first_key, p.keys);
  load_step(0);

  float scale[kM], k_factor[kM], v_factor[kM];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    k_factor[m] = k_factors(first_key + warp_key + 16 * m, p.keys);
    scale[m] = p.scale_log2 * k_factor[m];
    v_factor[m] = v_factors(first_key + warp_key + 16 * m, p.keys);
  }

  Accumulator d_k[kM][kWidthTiles] = {}, d_v[kM][kWidthTiles] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    __syncthreads();
    if (kStages == 2) load_step(step + 1);
    const unsigned stage = ring + step % kStages * kStageBytes;
    const Rows q_tile{stage}, d_out_tile{stage + kQueryBytes};
    const unsigned shifts = stage + 2 * kQueryBytes;
    const int tile = begin + step % (end - begin);
    const int first_query = tile * kQueries + part_query;
    const int head = own.head * p.group + step / (end - begin);
    const int head_number = own.batch * p.heads + head;
    const Factors q_factors(p.q_factors, head_number, p.queries);
    const Factors d_out_factors(p.d_out_factors, head_number, p.queries);
    Accumulator weights[kM][kPartTiles] = {}, d_scores[kM][kPartTiles] = {};
    const auto multiply_rows = [&](Accumulator(&result)[kM][kPartTiles], Rows left, Rows right) {
      multiply_tiles<Element, kHeadDim / kStep>(
          result,
          [&](FragmentA<Element>(&a)[kM], int d) {
#pragma unroll
            for (int m = 0; m < kM; ++m) a[m] = load_a(left, warp_key + 16 * m, d * kStep);
          },
          [&](FragmentB<Element>(&b)[2], int d, int n) {
            load_b_pair(b, right, part_query + 8 * n, d * kStep);
          });
    };

    multiply_rows(weights, k_tile, q_tile);
    const int key = first_key + warp_key;
    const Span common = {visible.queries_of(key + 16 * kM - 1).first, visible.queries_of(key).last};
    if (key + 16 * kM > p.keys || !common.covers(first_query, first_query + kPart))
      mask_scores(weights, key, first_query, [&](int row) { return visible.queries_of(row); });
    // The scores at which the gradient of the score function is taken.
    Accumulator products[kFunction ? kM : 1][kFunction ? kPartTiles : 1];
    const auto place = [&](int m, int n, int i) {
      return ScorePlace{p.operands, own.batch, head,
                        min(first_query + 8 * n + column_in_tile(i), p.queries - 1),
                        min(key + 16 * m + row_in_tile(i), p.keys - 1)};
    };
#pragma unroll
    for (int n = 0; n < kPartTiles; ++n) {
      float shift[2];
      load_floats(shift[0], shift[1], shifts + 4 * (part_query + 8 * n + 2 * (lane() % 4)));
      const float q_factor = q_factors(first_query + 8 * n, p.queries);
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& weight = weights[m][n].v[i];
          float exponent = weight * (q_factor * scale[m]);
          if constexpr (kFunction) {
            const float product = weight * (q_factor * k_factor[m]);
            products[m][n].v[i] = product;
            exponent = product == -infinity() ? product : score_value(place(m, n, i), product) * p.scale_log2;
          }
          weight = exp2(at_most(exponent - (shift[i % 2] - kTop), kTop));
        }
    }

    multiply_rows(d_scores, v_tile, d_out_tile);
    float largest[kM] = {};
#pragma unroll
    for (int n = 0; n < kPartTiles; ++n) {
      float delta[2];
      load_floats(delta[0], delta[1], shifts + 4 * (kQueries + part_query + 8 * n + 2 * (lane() % 4)));
      const float d_out_factor = d_out_factors(first_query + 8 * n, p.queries);
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& d_score = d_scores[m][n].v[i];
          d_score = weights[m][n].v[i] * (d_score * (d_out_factor * v_factor[m]) - delta[i % 2]);
          if constexpr (kFunction) {
            const float product = products[m][n].v[i];
            d_score = product == -infinity() ? 0 : score_gradient(place(m, n, i), product, d_score);
          }
          if (!kIs16Bit) largest[m] = fmaxf(largest[m], fabsf(d_score));
        }
    }
    float plane_scale[kM] = {};  // the factors that undo the scaling of d_scores for planes
    if (!kIs16Bit) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const float to_top = scale_to_top(warp_max(largest[m]));
#pragma unroll
        for (int n = 0; n < kPartTiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) d_scores[m][n].v[i] *= to_top;
        plane_scale[m] = inverse_power(to_top) * 0x1p-14f;
        if ((kSinglePass || kSplit > 1) && lane() == 0)
          store_float(plane_scales + 4 * ((warp_key / 16 + m) * kParts + part), plane_scale[m]);
      }
    }

    const auto keep = [&](Weights to, const Accumulator(&results)[kM][kPartTiles]) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int n = 0; n < kPartTiles; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            store_pair<Element>(to, warp_key + 16 * m + lane() / 4 + 8 * i, part_query + 8 * n + 2 * (lane() % 4),
                       results[m][n].v[2 * i], results[m][n].v[2 * i + 1]);
    };
    if (kSinglePass || kSplit > 1) keep(d_score_tile, d_scores);
    if (kSplit > 1) {
      keep(weight_tile, weights);
      __syncthreads();
    }

    const auto add_product = [&](Accumulator(&sum)[kM][kWidthTiles], Accumulator(&left)[kM][kPartTiles],
                                 Weights kept, Rows right, auto factor) {
      multiply_tiles<Element, kQueries / kStep, (kSplit > 1)>(
          sum,
          [&](FragmentA<Element>(&a)[kM], int q) {
#pragma unroll
            for (int m = 0; m < kM; ++m) {
              if constexpr (kSplit > 1) {
                a[m] = load_a(kept, warp_key + 16 * m, q * kStep);
              } else {
                a[m] = a_from_results<Element>(left[m], q);
              }
            }
          },
          [&](FragmentB<Element>(&b)[2], int q, int n) {
            load_b_pair_transposed(b, right, q * kStep, part_column + 8 * n);
          },
          factor);
    };
    const int tile_query = tile * kQueries;
    add_product(d_v, weights, weight_tile, d_out_tile, [&](int, int q) {
      return d_out_factors(tile_query + 16 * q, p.queries) * 0x1p-14f;
    });
    add_product(d_k, d_scores, d_score_tile, q_tile, [&](int m, int q) {
      const float back = kSplit == 1 ? plane_scale[m]
                                     : load_float(plane_scales + 4 * ((warp_key / 16 + m) * kParts + 16 * q / kPart));
      return q_factors(tile_query + 16 * q, p.queries) * back;
    });

    if (kStages == 1 || (kSinglePass && kSplit == 1)) __syncthreads();
    if (kStages == 1) load_step(step + 1);

    if constexpr (kSinglePass) {
      QuerySums<kQueries, kWarps> sums;
      sums.multiply_all<kKeys>(d_score_tile, k_tile, [&](int row, int k) {
        return k_factors(first_key + k, p.keys) * load_float(plane_scales + 4 * (k / 16 * kParts + row / kPart));
      });
      const long long number = static_cast<long long>(head_number) * p.query_tiles + tile;
      sums.add_to(p.d_q_sum + number * (kQueries * kHeadDim));
    }
  }

  // Staged in shared memory, so that rows are written 16 bytes at a time.
  wait_for_copies<0>();
  __syncthreads();
  const BlockTile same(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false);
  const int first_row = same.tile * kKeys;
  const Outputs d_k_out(p.d_k, same.batch, same.head), d_v_out(p.d_v, same.batch, same.head);
  put_results(d_k, k_tile, d_k_out, first_row, p.keys, warp_key, part_column,
              [&](int, int) { return p.scale; });
  put_results(d_v, v_tile, d_v_out, first_row, p.keys, warp_key, part_column, [](int, int) { return 1.0f; });
  __syncthreads();
  constexpr int kRowsOut = kKeys / kWarps;
  store_rows<kRowsOut>(k_tile, d_k_out, first_row, p.keys, warp() * kRowsOut);
  store_rows<kRowsOut>(v_tile, d_v_out, first_row, p.keys, warp() * kRowsOut);
}

}  // namespace ridgeline

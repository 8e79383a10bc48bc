// The single-pass backward on Hopper: gradients of keys and values, and sums for those of queries. A block keeps 64
// keys for each of its warpgroups and walks over the queries that see them.
//
// As in flash_backward_keys.cu scores are computed transposed, keys x queries, so that weights and their gradients
// are left operands in registers for dV = P^T dO and dK = dS^T Q. For dQ = dS K the gradients of scores also pass
// through shared memory; each warpgroup computes 64 x 64 of it, while the scores of the next step are computed. So
// tiles of dS have two places, and queries, which dK still reads then, three.
//
// Constants beside those of flash_common.cuh: QUERIES (a step), WARPGROUPS (as many as dQ of a step has parts of 64 x
// 64), BLOCKS (a multiprocessor should hold).
#include "flash_backward_warpgroups.cuh"

namespace ridgeline {

constexpr int kQueries = QUERIES, kWarpgroups = WARPGROUPS;
constexpr int kKeys = 64 * kWarpgroups, kThreads = kWarpgroup * kWarpgroups;
constexpr int kScoreTiles = kQueries / 8, kWidthTiles = kHeadDim / 8;
constexpr int kQuerySteps = kQueries / kStep;
constexpr int kPartsAcross = (kHeadDim + kPanel - 1) / kPanel;  // 64 x 64 parts of dQ side by side
constexpr int kLastPartTiles = (kHeadDim - 1) % kPanel / 8 + 1;  // what there is of the last of them
static_assert(kQueries / 64 * kPartsAcross == kWarpgroups, "a part of dQ for each warpgroup");

using KeyRows = Panels<kKeys, kHeadDim>;
using QueryRows = Panels<kQueries, kHeadDim>;
using Scores = Panels<kKeys, kQueries>;
using Steps = QuerySteps<kQueries, kKeys>;
constexpr int kStageBytes = 2 * QueryRows::kBytes;
constexpr int kWarpSums = 16 * kPanel * 4;  // bytes of a warp's part of dQ

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_backward_warpgroups(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const Work work(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false);
  const int first_key = work.tile * kKeys;
  const int warpgroup = warp() / 4;
  const int warp_key = 16 * warp();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  Steps at(p, visible, work);
  const int steps = at.count;

  const KeyRows k_tile{shared_address()}, v_tile{k_tile.address + KeyRows::kBytes};
  const unsigned ring = v_tile.address + KeyRows::kBytes;
  const unsigned d_score_ring = ring + 3 * kStageBytes;
  const unsigned staging = d_score_ring + 2 * Scores::kBytes;  // of sums on their way out
  const unsigned row_ring = staging + kThreads / 32 * kWarpSums;  // log-sum-exps and dots of a stage's queries

  const auto load_step = [&](const Steps& place, int number) {
    const unsigned stage = ring + number * kStageBytes;
    const int query = place.tile * kQueries;
    load_rows<kQueries, kThreads>(QueryRows{stage}, Inputs(p.q, work.batch, place.head), query, p.queries);
    load_rows<kQueries, kThreads>(QueryRows{stage + QueryRows::kBytes}, Inputs(p.d_out_planes, work.batch, place.head),
                                  query, p.queries);
    const long long row = place.row(p, work);
    const unsigned to = row_ring + number * (8 * kQueries);
    if (threadIdx.x < kQueries / 4) {
      copy_chunk(to + 16 * threadIdx.x, p.row_shift + row + 4 * threadIdx.x);
      copy_chunk(to + 4 * kQueries + 16 * threadIdx.x, p.row_dot + row + 4 * threadIdx.x);
    }
  };

  load_rows<kKeys, kThreads>(k_tile, Inputs(p.k, work.batch, work.head), first_key, p.keys);
  load_rows<kKeys, kThreads>(v_tile, Inputs(p.v, work.batch, work.head), first_key, p.keys);
  int stage_number = 0;
  if (steps > 0) load_step(at, stage_number);
  commit_copies();

  Accumulator d_k[1][kWidthTiles] = {}, d_v[1][kWidthTiles] = {}, d_q[kPanel / 8] = {};
  // The part of dQ that this warpgroup computes, and where its sums over all blocks are. It leaves through shared
  // memory, so that nobody waits for the additions.
  const int part_query = warpgroup / kPartsAcross * 64, part_column = warpgroup % kPartsAcross * kPanel;
  float* d_q_sum = nullptr;
  const auto add_d_q = [&] {
    settle(d_q);
    float* to = d_q_sum + place_of_sum(part_query + warp() % 4 * 16, part_column);
    if (kHeadDim % kPanel == 0 || part_column + kPanel <= kHeadDim)
      add_shared<kPanel / 8>(to, d_q, staging + warp() * kWarpSums);
    else
      add_shared<kLastPartTiles>(to, d_q, staging + warp() * kWarpSums);
  };
  const auto multiply_d_scores = [&](int step) {
    const Scores d_score_tile{d_score_ring + (step & 1) * Scores::kBytes};
#pragma unroll
    for (int k = 0; k < kKeys; k += kStep)
      multiply_shared<Element>(d_q, d_score_tile.columns_from(part_query, k), k_tile.columns_from(part_column, k),
                               k > 0);
    end_products();
  };

  for (int step = 0; step < steps; ++step) {
    wait_for_copies<0>();
    publish_shared();
    __syncthreads();
    const unsigned stage = ring + stage_number * kStageBytes;
    const QueryRows q_tile{stage}, d_out_tile{stage + QueryRows::kBytes};
    Accumulator weights[1][kScoreTiles], d_scores[1][kScoreTiles];
    const auto multiply_rows = [&](Accumulator(&result)[kScoreTiles], KeyRows left, QueryRows right) {
#pragma unroll
      for (int d = 0; d < kHeadDim; d += kStep)
        multiply_shared<Element>(result, left.rows_from(64 * warpgroup, d), right.rows_from(0, d), d > 0);
      end_products();
    };
    begin_products();
    multiply_d_scores(step - 1);  // at first of nothing that counts
    multiply_rows(weights[0], k_tile, q_tile);
    Steps next = at;
    next.next();
    const int next_stage = stage_number == 2 ? 0 : stage_number + 1;
    if (step + 1 < steps) load_step(next, next_stage);
    commit_copies();
    wait_for_products<1>();
    if (step > 0) add_d_q();
    d_q_sum = at.sums(p, work);
    begin_products();
    multiply_rows(d_scores[0], v_tile, d_out_tile);

    wait_for_products<1>();
    settle(weights[0]);
    const unsigned shifts = row_ring + stage_number * (8 * kQueries);
    weigh(weights, p, visible, first_key + warp_key, at.tile * kQueries, shifts);
    FragmentA<Element> left[kQuerySteps];
    const auto add_product = [&](Accumulator(&sum)[kWidthTiles], QueryRows right) {
      begin_products();
#pragma unroll
      for (int q = 0; q < kQuerySteps; ++q)
        multiply_registers<Element>(sum, left[q], right.columns_from(0, q * kStep), true);
      end_products();
    };
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q) left[q] = a_from_results<Element>(weights[0], q);
    add_product(d_v[0], d_out_tile);

    wait_for_products<1>();
    settle(d_scores[0]);
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      float dot[2];
      load_floats(dot[0], dot[1], shifts + 4 * (kQueries + 8 * n + 2 * (lane() % 4)));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& d_score = d_scores[0][n].v[i];
        d_score = weights[0][n].v[i] * (d_score - dot[i % 2]);
      }
    }
    const Scores d_score_tile{d_score_ring + step % 2 * Scores::kBytes};
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q) {
      left[q] = a_from_results<Element>(d_scores[0], q);
      store_a(d_score_tile, warp_key, q * kStep, left[q]);
    }
    publish_shared();
    add_product(d_k[0], q_tile);
    at = next;
    stage_number = next_stage;
  }
  publish_shared();
  __syncthreads();
  if (steps > 0) {
    begin_products();
    multiply_d_scores(steps - 1);
    wait_for_products<0>();
    add_d_q();
  }
  wait_for_products<0>();
  wait_for_additions();
  settle(d_k[0]);
  settle(d_v[0]);

  // Through shared memory, so that rows leave in whole pieces. A warp's keys are its own.
  wait_for_copies<0>();
  __syncthreads();
  const Work same(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false);
  const int first_row = same.tile * kKeys;
  const Outputs d_k_out(p.d_k, same.batch, same.head), d_v_out(p.d_v, same.batch, same.head);
  put_results(d_k, k_tile, d_k_out, first_row, p.keys, warp_key, 0, [&](int, int) { return p.scale; });
  put_results(d_v, v_tile, d_v_out, first_row, p.keys, warp_key, 0, [](int, int) { return 1.0f; });
  __syncwarp();
  store_rows<16>(k_tile, d_k_out, first_row, p.keys, warp_key);
  store_rows<16>(v_tile, d_v_out, first_row, p.keys, warp_key);
}

}  // namespace ridgeline

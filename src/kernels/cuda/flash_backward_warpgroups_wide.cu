// The single-pass backward on Hopper for heads wider than 128: a block keeps 64 keys and walks over the queries that
// see them. No warpgroup has room for both gradients of these keys, so each has a part of its own:
//
//   weights      S^T = K Q^T, P = exp(S - shift), dV += P^T dO
//   d_scores     dP^T = V dO^T, dS = P (dP - dot), dK += dS^T Q
//   d_queries    dQ = dS K, added to the sums of all blocks
//   loads        queries and gradients of outputs, as far ahead as there is room
//
// P and dS go from one to the next through shared memory. No product is computed twice, and whoever waits leaves the
// tensor cores to the others.
//
// Constants beside those of flash_common.cuh: STAGES (tiles of queries, and of gradients of outputs, in shared memory).
#include "flash_backward_warpgroups.cuh"

namespace ridgeline {

constexpr int kQueries = 64, kKeys = 64, kStages = STAGES;
constexpr int kScoreTiles = kQueries / 8, kWidthTiles = kHeadDim / 8;
constexpr int kQuerySteps = kQueries / kStep;

enum Role { kWeights, kDScores, kDQueries, kLoads, kRoles };
constexpr int kThreads = kRoles * kWarpgroup;
// Of a thread: of the first two, which have most to keep, and of the others; together what a multiprocessor has.
constexpr int kGradientRegisters = 208, kDQueriesRegisters = 64, kLoadsRegisters = 32;
static_assert(kWarpgroup * (2 * kGradientRegisters + kDQueriesRegisters + kLoadsRegisters) <= 65536);

// dQ of a tile is computed a panel at a time.
constexpr int kPanelTiles = kPanel / 8, kLastPanelTiles = (kWidthTiles - 1) % kPanelTiles + 1;

// Accumulators of keys x queries from the threads of a warpgroup to those of another.
struct Weights {
  static constexpr int kBytes = 4 * kKeys * kQueries;
  unsigned address;

  __device__ __forceinline__ unsigned at(int n) const {
    return address + 16 * (n * kWarpgroup + threadIdx.x % kWarpgroup);
  }
};

using Steps = QuerySteps<kQueries, kKeys>;
using RowTile = Panels<64, kHeadDim>;  // of keys or of queries
using KeyPlace = TileRing<RowTile, 1>;
using QueryRing = TileRing<RowTile, kStages>;
using WeightPlace = TileRing<Weights, 1>;
using DScoreRing = TileRing<Panels<kKeys, kQueries>, 2>;
constexpr int kTileBytes =
    2 * KeyPlace::kTileBytes + 2 * QueryRing::kTileBytes + DScoreRing::kTileBytes + WeightPlace::kTileBytes;

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_backward_warpgroups_wide(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const KeyPlace k_place{shared_address(), shared_address() + kTileBytes};
  const auto v_place = k_place.then<KeyPlace>();
  const auto q_ring = v_place.then<QueryRing>(), d_out_ring = q_ring.then<QueryRing>();
  const auto d_score_ring = d_out_ring.then<DScoreRing>();
  const auto weight_place = d_score_ring.then<WeightPlace>();
  // A number for each query of a stage.
  const auto shifts = [&](int step) {
    return weight_place.barriers + WeightPlace::kBarrierBytes + step % kStages * (4 * kQueries);
  };
  const auto dots = [&](int step) { return shifts(step) + kStages * (4 * kQueries); };
  if (threadIdx.x == 0) {
    k_place.set_up(kWarpgroup, 8);
    v_place.set_up(kWarpgroup, 4);
    q_ring.set_up(kWarpgroup, 8);
    d_out_ring.set_up(kWarpgroup, 8);
    d_score_ring.set_up(4, 4);
    weight_place.set_up(4, 4);
  }
  __syncthreads();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const auto find_work = [&] { return Work(p.key_tiles, p.key_heads, p.batches, p.heads_at_once, false); };
  const int role = warpgroup_number();
  const int warp_row = 16 * (warp() % 4);

  if (role == kLoads) {
    give_registers<kLoadsRegisters>();
    const int thread = threadIdx.x % kWarpgroup;
    const Work work = find_work();
    Steps steps(p, visible, work);
    const auto load = [&](auto ring, int step, Inputs rows, int first, int end, auto load_more) {
      asm volatile("" : "+r"(rows.row));  // or else its multiples are kept, and there are few registers here
      ring.fill(step, [&](RowTile tile) {
        load_rows<64, kWarpgroup>(tile, rows, first, end, thread);
        load_more();
      });
    };
    const auto load_keys = [&](KeyPlace place, const FlashTensor& tensor) {
      load(place, 0, Inputs(tensor, work.batch, work.head), work.tile * kKeys, p.keys, [] {});
    };
    const auto load_queries = [&](QueryRing ring, int step, const FlashTensor& tensor, const float* numbers,
                                  unsigned to) {
      load(ring, step, Inputs(tensor, work.batch, steps.head), steps.tile * kQueries, p.queries, [&] {
        if (thread < kQueries / 4) copy_chunk(to + 16 * thread, numbers + steps.row(p, work) + 4 * thread);
      });
    };
    load_keys(k_place, p.k);
    for (int step = 0; step < steps.count; ++step) {
      load_queries(q_ring, step, p.q, p.row_shift, shifts(step));
      if (step == 0) load_keys(v_place, p.v);
      load_queries(d_out_ring, step, p.d_out_planes, p.row_dot, dots(step));
      steps.next();
    }
    commit_copies();
    wait_for_copies<0>();
    return;
  }

  if (role == kDQueries) {
    give_registers<kDQueriesRegisters>();
    const Work work = find_work();
    const RowTile k_tile = k_place.take(0);
    Steps steps(p, visible, work);
    for (int step = 0; step < steps.count; ++step) {
      float* sums = steps.sums(p, work) + place_of_sum(warp_row, 0);
      const auto d_score_tile = d_score_ring.take(step);
#pragma unroll 1
      for (int column = 0; column < kHeadDim; column += kPanel) {
        Accumulator d_q[kPanelTiles];
        begin_products();
#pragma unroll
        for (int k = 0; k < kKeys; k += kStep)
          multiply_shared<Element>(d_q, d_score_tile.columns_from(0, k), k_tile.columns_from(column, k), k > 0);
        end_products();
        wait_for_products<0>();
        settle(d_q);
        if (column + kPanel < kHeadDim) {
          add_row<kPanelTiles>(sums + place_of_sum(0, column), d_q);
        } else {
          d_score_ring.give_back(step);
          add_row<kLastPanelTiles>(sums + place_of_sum(0, column), d_q);
        }
      }
      steps.next();
    }
    announce(1, 3 * kWarpgroup);
    return;
  }

  take_registers<kGradientRegisters>();
  Accumulator sum[1][kWidthTiles] = {};  // dV or dK
  settle(sum[0]);
  FragmentA<Element> left[kQuerySteps];
  const auto multiply_rows = [&](Accumulator(&result)[kScoreTiles], RowTile keys, RowTile queries) {
    begin_products();
#pragma unroll
    for (int d = 0; d < kHeadDim; d += kStep)
      multiply_shared<Element>(result, keys.rows_from(0, d), queries.rows_from(0, d), d > 0);
    end_products();
  };
  const auto add_product = [&](RowTile right) {
    begin_products();
#pragma unroll
    for (int q = 0; q < kQuerySteps; ++q)
      multiply_registers<Element>(sum[0], left[q], right.columns_from(0, q * kStep), true);
    end_products();
  };

  if (role == kWeights) {
    const Work work = find_work();
    const int key = work.tile * kKeys + warp_row;
    const RowTile k_tile = k_place.take(0);
    Steps steps(p, visible, work);
    for (int step = 0; step < steps.count; ++step) {
      Accumulator weights[1][kScoreTiles];
      multiply_rows(weights[0], k_tile, q_ring.take(step));
      wait_for_products<1>();  // dV of the step before
      if (step > 0) d_out_ring.give_back(step - 1);
      wait_for_products<0>();
      settle(weights[0]);
      weigh(weights, p, visible, key, steps.tile * kQueries, shifts(step));
      const Weights to = weight_place.room(step);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) store_accumulator(to.at(n), weights[0][n]);
      weight_place.hand_over(step);
      q_ring.give_back(step);
#pragma unroll
      for (int q = 0; q < kQuerySteps; ++q) left[q] = a_from_results<Element>(weights[0], q);
      add_product(d_out_ring.take(step));
      steps.next();
    }
  } else {
    const int steps = Steps(p, visible, find_work()).count;
    for (int step = 0; step < steps; ++step) {
      Accumulator d_scores[1][kScoreTiles];
      multiply_rows(d_scores[0], v_place.take(0), d_out_ring.take(step));
      wait_for_products<1>();  // dK of the step before
      if (step > 0) q_ring.give_back(step - 1);
      wait_for_products<0>();
      settle(d_scores[0]);
      const Weights weights = weight_place.take(step);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        float dot[2];
        load_floats(dot[0], dot[1], dots(step) + 4 * (8 * n + 2 * (lane() % 4)));
        const Accumulator weight = load_accumulator(weights.at(n));
#pragma unroll
        for (int i = 0; i < 4; ++i) d_scores[0][n].v[i] = weight.v[i] * (d_scores[0][n].v[i] - dot[i % 2]);
      }
      weight_place.give_back(step);
      d_out_ring.give_back(step);
      const auto d_score_tile = d_score_ring.room(step);
#pragma unroll
      for (int q = 0; q < kQuerySteps; ++q) {
        left[q] = a_from_results<Element>(d_scores[0], q);
        store_a(d_score_tile, warp_row, q * kStep, left[q]);
      }
      d_score_ring.hand_over(step);
      add_product(q_ring.take(step));
    }
  }
  wait_for_products<0>();
  settle(sum[0]);

  // Through shared memory, so that rows leave in whole pieces: keys and values make room when nobody needs them.
  meet(1, 3 * kWarpgroup);
  const Work work = find_work();
  const int first_key = work.tile * kKeys;
  const bool is_d_v = role == kWeights;
  const RowTile place = is_d_v ? v_place.tile(0) : k_place.tile(0);
  const Outputs out(is_d_v ? p.d_v : p.d_k, work.batch, work.head);
  const float scale = is_d_v ? 1 : p.scale;
  put_results(sum, place, out, first_key, p.keys, warp_row, 0, [&](int, int) { return scale; });
  __syncwarp();
  store_rows<16>(place, out, first_key, p.keys, warp_row);
}

}  // namespace ridgeline

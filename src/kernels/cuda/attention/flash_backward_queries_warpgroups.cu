// The second of two backward passes on Hopper, for heads up to 128 wide: dQ = scale dS K. Each consumer warpgroup keeps
// 64 queries and loops over the keys that they see; a producer thread issues TMA copies for all of them. No two blocks
// add to the same sum, so that every run gives the same bits.
//
// Constants beside those of flash_common.cuh: QUERIES (of a block), KEYS (of a step), STAGES (tiles of keys, and as
// many of values, in shared memory).
#include "flash_chain.cuh"
#include "flash_forward_warpgroups.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kRows = QUERIES, kKeys = KEYS;
constexpr int kWarpgroups = kRows / 64;
constexpr int kThreads = kWarpgroup * (kWarpgroups + 1);
constexpr int kScoreTiles = kKeys / 8, kKeySteps = kKeys / kStep;
// setmaxnreg moves most of the producer's registers to the consumers.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
static_assert(kWarpgroup * (kProducerRegisters + kWarpgroups * kConsumerRegisters) <= 65536);

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;
using QueryPlace = TileRing<QueryRows, 1>;
using KeyRing = TileRing<KeyRows, STAGES>;

// Starts result = A B^T for the 64 rows from `row` on and a step of keys.
__device__ __forceinline__ void multiply_rows(Accumulator (&result)[kScoreTiles], QueryRows left, int row,
                                              KeyRows right) {
  wgmma_fence();
#pragma unroll
  for (int d = 0; d < kHeadDim; d += kStep)
    multiply_shared<Element>(result, left.rows_from(row, d), right.rows_from(0, d), d > 0);
  wgmma_commit();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_backward_queries_warpgroups(const __grid_constant__ FlashBackwardParams p) {
  wait_for_earlier_kernels();
  const unsigned barriers = shared_address() + 2 * QueryPlace::kTileBytes + 2 * KeyRing::kTileBytes;
  const QueryPlace q_place{shared_address(), barriers};
  const auto d_out_place = ring_after<QueryPlace>(q_place);
  const auto key_ring = ring_after<KeyRing>(d_out_place), value_ring = ring_after<KeyRing>(key_ring);
  if (threadIdx.x == 0) {
    q_place.set_up(1, 4 * kWarpgroups);
    d_out_place.set_up(1, 4 * kWarpgroups);
    key_ring.set_up(1, 4 * kWarpgroups);
    value_ring.set_up(1, 4 * kWarpgroups);
    fence_barrier_init();
  }
  __syncthreads();
  const BlockTile own(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = own.tile * kRows;
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const KeySteps<kKeys> steps(visible, first_query, kRows, visible_keys<kRows>(p, own));
  const int warpgroup = warpgroup_number();

  if (warpgroup == kWarpgroups) {
    decrease_registers<kProducerRegisters>();
    if (threadIdx.x % kWarpgroup != 0) return;
    const unsigned long long once = evict_first(), often = evict_last();
    const auto load_queries = [&](const QueryPlace& place, const TensorMap& map) {
      place.fill(0, QueryRows::kBytes, [&](QueryRows tile, MBarrier arrived) {
        copy_tile(tile, map, {first_query, own.head, own.batch}, arrived, once);
      });
    };
    const auto load_keys = [&](const KeyRing& ring, const TensorMap& map, int step) {
      ring.fill(step, KeyRows::kBytes, [&](KeyRows tile, MBarrier arrived) {
        copy_tile(tile, map, {steps.begin + step * kKeys, own.head / p.group, own.batch}, arrived, often);
      });
    };
    load_queries(q_place, p.q_map);
    load_keys(key_ring, p.k_map, 0);
    load_queries(d_out_place, p.d_out_map);
    load_keys(value_ring, p.v_map, 0);
    for (int step = 1; step < steps.count; ++step) {
      load_keys(key_ring, p.k_map, step);
      load_keys(value_ring, p.v_map, step);
    }
    return;
  }

  increase_registers<kConsumerRegisters>();
  const int first_row = 64 * warpgroup, warp_row = 16 * warp();
  float shift[2], delta[2];  // of the two rows that a lane holds
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const long long row = (static_cast<long long>(own.batch) * p.heads + own.head) * p.padded_queries + first_query +
                          warp_row + lane() / 4 + 8 * i;
    shift[i] = p.row_shift[row], delta[i] = p.delta[row];
  }
  Accumulator d_q[1][kHeadDim / 8];
  const QueryRows q_tile = q_place.wait_full(0), d_out_tile = d_out_place.wait_full(0);
  int step = 0;
  const auto walk_to = [&]<bool kWhole>(int end) {
    for (; step < end; ++step) {
      Accumulator scores[1][kScoreTiles], d_weights[kScoreTiles];
      FragmentA<Element> d_scores[kKeySteps];
      const KeyRows k_tile = key_ring.wait_full(step);
      multiply_rows(scores[0], q_tile, first_row, k_tile);
      wgmma_wait<1>();  // dQ of the step before
      if (step > 0) key_ring.release(step - 1);
      multiply_rows(d_weights, d_out_tile, first_row, value_ring.wait_full(step));
      wgmma_wait<1>();
      fence_registers(scores[0]);
      const int query = first_query + warp_row, key = steps.begin + step * kKeys;
      ScoreChain<kScoreTiles> chain;
      chain.apply(scores[0], [&](int n, int i) {
        return ScorePlace{p.operands, own.batch, own.head, min(query + row_in_tile(i), p.queries - 1),
                          min(key + 8 * n + column_in_tile(i), p.keys - 1)};
      });
      if (!kWhole) mask_scores(scores, query, key, [&](int row) { return visible.keys_of(row); });
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[0][n].v[i] = exp2(scores[0][n].v[i] * p.scale_log2 - shift[i / 2]);
        scores[0][n] = chain.times(n, scores[0][n]);
      }
      wgmma_wait<0>();
      value_ring.release(step);
      fence_registers(d_weights);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) d_weights[n].v[i] = scores[0][n].v[i] * (d_weights[n].v[i] - delta[i / 2]);
#pragma unroll
      for (int k = 0; k < kKeySteps; ++k) d_scores[k] = a_from_results<Element>(d_weights, k);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kKeySteps; ++k)
        multiply_registers<Element>(d_q[0], d_scores[k], k_tile.columns_from(0, k * kStep), step > 0 || k > 0);
      wgmma_commit();
    }
  };
  if constexpr (MASK == 2) walk_to.template operator()<false>(steps.first_whole);
  walk_to.template operator()<true>(steps.end_whole);
  walk_to.template operator()<false>(steps.count);
  wgmma_wait<0>();
  fence_registers(d_q[0]);
  barrier_wait(1 + warpgroup, kWarpgroup);  // results are staged in the tile of queries
  const Outputs out(p.d_q, own.batch, own.head);
  put_results(d_q, q_tile, out, first_query, p.queries, warp_row, 0, [&](int, int) { return p.scale; });
  __syncwarp();
  store_rows<16>(q_tile, out, first_query, p.queries, warp_row);
}

}  // namespace ridgeline

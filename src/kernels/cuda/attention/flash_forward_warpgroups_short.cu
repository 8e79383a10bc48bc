// Attention forward on Hopper, for short sequences: blocks of one warpgroup that keep 64 queries and walk over the
// keys. A multiprocessor holds several of them, so that one computes while another waits. While a tile of scores goes
// through the softmax, the product of the weights before it with their values runs, and the next tiles are copied.
//
// Constants beside those of flash_common.cuh: KEYS (a step), BLOCKS (a multiprocessor should hold).
#include "flash_forward_warpgroups.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kRows = 64, kKeys = KEYS;
constexpr int kThreads = 128;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;
using QueryPlace = TileRing<QueryRows, 1>;
using KeyRing = TileRing<KeyRows, 2>;

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_forward_warpgroups_short(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const unsigned barriers = shared_address() + QueryPlace::kTileBytes + 2 * KeyRing::kTileBytes;
  const QueryPlace query_place{shared_address(), barriers};
  const auto key_ring = ring_after<KeyRing>(query_place), value_ring = ring_after<KeyRing>(key_ring);
  const Work work(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = work.tile * kRows;
  const int warp_row = 16 * warp();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const KeySteps<kKeys> steps(visible, first_query, kRows);
  const auto load = [&](const KeyRing& ring, const TensorMap& map, int step) {
    if (step < steps.count)
      ring.fill(step, KeyRows::kBytes, [&](KeyRows tile, PhaseBarrier arrived) {
        copy_tile(tile, map, {steps.begin + step * kKeys, work.head / p.group, work.batch}, arrived, evict_last());
      });
  };
  if (threadIdx.x == 0) {
    query_place.set_up(1, kThreads / 32);
    key_ring.set_up(1, kThreads / 32);
    value_ring.set_up(1, kThreads / 32);
    publish_barriers();
    query_place.fill(0, QueryRows::kBytes, [&](QueryRows tile, PhaseBarrier arrived) {
      copy_tile(tile, p.q_map, {first_query, work.head, work.batch}, arrived, evict_first());
    });
    load(key_ring, p.k_map, 0);
    load(key_ring, p.k_map, 1);
    load(value_ring, p.v_map, 0);
  }
  __syncthreads();

  WarpgroupQueries<kKeys> mine(p.scale_log2);
  const auto weigh = [&](int step, bool whole) {
    return mine.weigh(p, work, visible, first_query + warp_row, steps.begin + step * kKeys, whole);
  };
  const QueryRows q_tile = query_place.take(0);
  mine.multiply_keys(q_tile, 0, key_ring.take(0));
  wait_for_products<0>();
  key_ring.release(0);
  weigh(0, steps.whole(0));
  mine.pack_weights();
  for (int step = 1; step < steps.count; ++step) {
    mine.multiply_keys(q_tile, 0, key_ring.take(step));
    mine.multiply_values(value_ring.take(step - 1), step > 1);
    if (threadIdx.x == 0) {
      load(key_ring, p.k_map, step + 1);
      load(value_ring, p.v_map, step);
    }
    wait_for_products<1>();
    key_ring.release(step);
    const bool raised = weigh(step, steps.whole(step));
    wait_for_products<0>();
    value_ring.release(step - 1);
    fence_registers(mine.output[0]);
    if (raised) mine.softmax.rescale(mine.output);
    mine.pack_weights();
  }
  mine.multiply_values(value_ring.take(steps.count - 1), steps.count > 1);
  wait_for_products<0>();
  fence_registers(mine.output[0]);
  __syncthreads();  // queries make room for results
  const Work same(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  finish_rows(p, same, mine.softmax, mine.output, q_tile, kRows, warp_row);
}

}  // namespace ridgeline

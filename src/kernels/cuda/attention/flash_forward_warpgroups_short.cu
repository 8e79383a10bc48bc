// Attention forward on Hopper for short sequences: a block is one warpgroup that keeps 64 queries and loops over the
// keys. All threads load (cp.async): TMA has a longer latency, which a few steps do not make up for. A multiprocessor
// holds several blocks, so that one computes while another loads or waits. The softmax of a step overlaps with the
// product P V of the step before it.
//
// Constants beside those of flash_common.cuh: KEYS (of a step), BLOCKS (that a multiprocessor should hold).
#include "flash_forward_warpgroups.cuh"

namespace ridgeline {

constexpr int kRows = 64, kKeys = KEYS;
constexpr int kThreads = 128;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_forward_warpgroups_short(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const BlockTile own(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = own.tile * kRows;
  const int warp_row = 16 * warp();
  const int key_head = own.head / p.group;
  const Inputs keys(p.k, own.batch, key_head);
  const Inputs values(p.v, own.batch, key_head);
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const KeySteps<kKeys> steps(visible, first_query, kRows, visible_keys<kRows>(p, own));

  const QueryRows q_tile{shared_address()};
  const unsigned ring = q_tile.address + QueryRows::kBytes;
  const auto k_tile = [&](int step) { return KeyRows{ring + (step & 1) * KeyRows::kBytes}; };
  const auto v_tile = [&](int step) { return KeyRows{ring + (2 + (step & 1)) * KeyRows::kBytes}; };
  const auto load_keys = [&](int step) {
    if (step < steps.count) load_rows<kKeys, kThreads>(k_tile(step), keys, steps.begin + step * kKeys, p.keys);
  };
  const auto load_values = [&](int step) {
    if (step < steps.count) load_rows<kKeys, kThreads>(v_tile(step), values, steps.begin + step * kKeys, p.keys);
  };
  // Waits until the copies for this step have arrived and all warps are done with the tiles that are overwritten next.
  const auto arrive = [] {
    wait_for_copies<0>();
    fence_async_proxy();
    __syncthreads();
  };

  load_rows<kRows, kThreads>(q_tile, Inputs(p.q, own.batch, own.head), first_query, p.queries);
  load_keys(0);
  commit_copies();

  WarpgroupQueries<kKeys> mine(p.scale_log2);
  const auto weigh = [&](int step) {
    return mine.weigh(p, own, visible, first_query + warp_row, steps.begin + step * kKeys, steps.whole(step));
  };
  arrive();
  mine.multiply_keys(q_tile, 0, k_tile(0));
  load_keys(1);
  load_values(0);
  commit_copies();
  wgmma_wait<0>();
  weigh(0);
  mine.pack_weights();
  for (int step = 1; step < steps.count; ++step) {
    arrive();
    mine.multiply_keys(q_tile, 0, k_tile(step));
    mine.multiply_values(v_tile(step - 1), step > 1);
    load_keys(step + 1);
    load_values(step);
    commit_copies();
    wgmma_wait<1>();
    const bool raised = weigh(step);
    wgmma_wait<0>();
    fence_registers(mine.output[0]);
    if (raised) mine.softmax.rescale(mine.output);
    mine.pack_weights();
  }
  arrive();
  mine.multiply_values(v_tile(steps.count - 1), steps.count > 1);
  wgmma_wait<0>();
  fence_registers(mine.output[0]);
  const BlockTile same(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  finish_rows(p, same, mine.softmax, mine.output, q_tile, kRows, warp_row);
}

}  // namespace ridgeline

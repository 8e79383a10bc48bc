// Attention forward on Hopper. The warpgroups of a block keep 64 queries each and walk over the keys at their own pace;
// one more warpgroup loads keys and values for all of them, as far ahead as there is room. While a tile of scores goes
// through the softmax, the product of the weights before it with their values runs, and products of other warpgroups.
//
// Constants beside those of flash_common.cuh: ROWS (queries a block), KEYS (a step), STAGES (tiles of keys and of values
// in shared memory). A multiprocessor holds one block.
#include "flash_forward_warpgroups.cuh"

namespace ridgeline {

constexpr int kRows = ROWS, kKeys = KEYS;
constexpr int kWarpgroups = kRows / 64;
constexpr int kThreads = 128 * (kWarpgroups + 1);

// Every thread begins with its share of a multiprocessor's registers; the loading warpgroup gives most of its own to
// the others.
constexpr int kFirstRegisters = 65536 / kThreads / 8 * 8;
constexpr int kLoaderRegisters = kWarpgroups == 3 ? 32 : 40;
constexpr int kReaderRegisters = (kFirstRegisters * (kWarpgroups + 1) - kLoaderRegisters) / kWarpgroups / 8 * 8;

// Warpgroups that begin their products in turn do their softmax while others multiply; very wide heads multiply for so
// long that waiting for a turn costs more than it brings.
constexpr bool kTurns = kHeadDim <= 192;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;
using KeyRing = TileRing<KeyRows, STAGES>;

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_forward_warpgroups(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const QueryRows q_tile{shared_address()};
  const unsigned rings = q_tile.address + QueryRows::kBytes, barriers = rings + 2 * KeyRing::kTileBytes;
  const KeyRing key_ring{rings, barriers};
  const KeyRing value_ring{rings + KeyRing::kTileBytes, barriers + KeyRing::kBarrierBytes};
  if (threadIdx.x == 0) key_ring.set_up(4 * kWarpgroups), value_ring.set_up(4 * kWarpgroups);
  __syncthreads();

  const Work work(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
  const int first_query = work.tile * kRows;
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const KeySteps<kKeys> steps(visible, first_query, kRows);
  const int warpgroup = warp() / 4, thread = threadIdx.x % 128;

  if (warpgroup == kWarpgroups) {
    give_registers<kLoaderRegisters>();
    const int key_head = work.head / p.group;
    const Inputs keys(p.k, work.batch, key_head);
    const Inputs values(p.v, work.batch, key_head);
    const auto load = [&](const KeyRing& ring, Inputs rows, int step) {
      asm volatile("" : "+r"(rows.row));  // or else its multiples are kept, and there are few registers here
      if (step < steps.count)
        ring.fill(step, [&](KeyRows tile) {
          load_rows<kKeys, 128>(tile, rows, steps.begin + step * kKeys, p.keys, thread);
        });
    };
    load(key_ring, keys, 0);
    for (int step = 0; step < steps.count; ++step) {
      load(key_ring, keys, step + 1);
      load(value_ring, values, step);
    }
    commit_copies();
    wait_for_copies<0>();
    return;
  }

  take_registers<kReaderRegisters>();
  const int first_row = 64 * warpgroup, warp_row = 16 * warp();
  const auto meet_warpgroup = [&] { meet(1 + warpgroup, 128); };
  // Turns go around: each warpgroup waits for the one before it, and lets the next one go.
  const auto wait_for_turn = [&] {
    if (kTurns) meet(1 + kWarpgroups + warpgroup, 256);
  };
  const auto end_turn = [&] {
    if (kTurns) announce(1 + kWarpgroups + (warpgroup + 1) % kWarpgroups, 256);
  };
  load_rows<64, 128>(QueryRows{q_tile.address + first_row * QueryRows::kRowBytes}, Inputs(p.q, work.batch, work.head),
                     first_query + first_row, p.queries, thread);
  commit_copies();
  wait_for_copies<0>();
  publish_shared();
  meet_warpgroup();

  WarpgroupQueries<kKeys> mine(p.scale_log2);
  const auto weigh = [&](int step) {
    return mine.weigh(p, work, visible, first_query + warp_row, steps.begin + step * kKeys);
  };
  if (steps.count > 0) {
    if (warpgroup == kWarpgroups - 1) end_turn();
    mine.multiply_keys(q_tile, first_row, key_ring.take(0));
    wait_for_products<0>();
    key_ring.give_back(0);
    weigh(0);
    mine.pack_weights();
    for (int step = 1; step < steps.count; ++step) {
      wait_for_turn();
      mine.multiply_keys(q_tile, first_row, key_ring.take(step));
      mine.multiply_values(value_ring.take(step - 1));
      end_turn();
      wait_for_products<1>();
      key_ring.give_back(step);
      const bool raised = weigh(step);
      wait_for_products<0>();
      value_ring.give_back(step - 1);
      settle(mine.output[0]);
      if (raised) mine.softmax.rescale(mine.output);
      mine.pack_weights();
    }
    mine.multiply_values(value_ring.take(steps.count - 1));
    wait_for_products<0>();
    settle(mine.output[0]);
  }
  meet_warpgroup();  // queries make room for results
  finish_rows(p, mine.softmax, mine.output, q_tile, kRows, warp_row);
}

}  // namespace ridgeline

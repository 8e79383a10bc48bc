// Attention forward on Hopper. The warpgroups of a block keep 64 queries each and walk over the keys at their own pace;
// one more warpgroup loads for all of them, as far ahead as there is room. While a tile of scores goes through the
// softmax, the product of the weights before it with their values runs, and products of other warpgroups.
//
// Constants beside those of flash_common.cuh: ROWS (queries of a tile), KEYS (a step), STAGES (tiles of keys and of
// values in shared memory), QUERY_STAGES (of queries), PERSISTENT (see Tiles). A multiprocessor holds one block.
#include "flash_forward_warpgroups.cuh"

namespace ridgeline {

constexpr int kRows = ROWS, kKeys = KEYS;
constexpr int kWarpgroups = kRows / 64;
constexpr int kThreads = kWarpgroup * (kWarpgroups + 1);
constexpr bool kPersistent = PERSISTENT;

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
using QueryRing = TileRing<QueryRows, QUERY_STAGES>;
using KeyRing = TileRing<KeyRows, STAGES>;

// The tiles of queries that a block works on: one, or if it is persistent, one after the other, so that the loads of a tile
// run under the end of the one before it. With a mask tiles differ in length; then they come in pairs of a long and a
// short one.
struct Tiles {
  const FlashForwardParams& p;
  unsigned unit = blockIdx.x;  // a tile or a pair
  bool is_second = false;      // of a pair
  int round = 0;

  __device__ __forceinline__ explicit Tiles(const FlashForwardParams& params) : p(params) {}
  __device__ __forceinline__ unsigned units_of_head() const {
    return kMasked ? (p.query_tiles + 1) / 2 : p.query_tiles;
  }
  __device__ __forceinline__ unsigned place() const { return unit % units_of_head(); }

  __device__ __forceinline__ bool more() const {
    return kPersistent ? unit < units_of_head() * p.heads * p.batches : round == 0;
  }
  __device__ __forceinline__ Work work() const {
    if (!kPersistent) return Work(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
    const unsigned head = unit / units_of_head(), heads = p.heads;
    const int tile = int(place());
    return Work(kMasked && !is_second ? p.query_tiles - 1 - tile : tile, int(head / heads), int(head % heads));
  }
  __device__ __forceinline__ void next() {
    ++round;
    is_second = kMasked && !is_second && 2 * int(place()) + 1 < p.query_tiles;  // the middle one has no other
    if (!is_second) unit += gridDim.x;
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_forward_warpgroups(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const unsigned barriers = shared_address() + QueryRing::kTileBytes + 2 * KeyRing::kTileBytes;
  const QueryRing query_ring{shared_address(), barriers};
  const auto key_ring = ring_after<KeyRing>(query_ring), value_ring = ring_after<KeyRing>(key_ring);
  if (threadIdx.x == 0) {
    query_ring.set_up(kWarpgroup, 4 * kWarpgroups);
    key_ring.set_up(kWarpgroup, 4 * kWarpgroups);
    value_ring.set_up(kWarpgroup, 4 * kWarpgroups);
  }
  __syncthreads();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const int warpgroup = warpgroup_number();
  int before = 0;  // steps of earlier tiles

  if (warpgroup == kWarpgroups) {
    give_registers<kLoaderRegisters>();
    for (Tiles tiles(p); tiles.more(); tiles.next()) {
      const Work work = tiles.work();
      const KeySteps<kKeys> steps(visible, work.tile * kRows, kRows);
      const auto load = [&](auto ring, int step, Inputs rows, int first, int end) {
        asm volatile("" : "+r"(rows.row));  // or else its multiples are kept, and there are few registers here
        ring.fill(step, [&](auto tile) {
          load_rows<decltype(tile)::kHeight, kWarpgroup>(tile, rows, first, end, threadIdx.x % kWarpgroup);
        });
      };
      const auto load_keys = [&](const KeyRing& ring, const FlashTensor& tensor, int step) {
        const Inputs rows(tensor, work.batch, work.head / p.group);
        if (step < steps.count) load(ring, before + step, rows, steps.begin + step * kKeys, p.keys);
      };
      load_keys(key_ring, p.k, 0);
      load(query_ring, tiles.round, Inputs(p.q, work.batch, work.head), work.tile * kRows, p.queries);
      for (int step = 0; step < steps.count; ++step) {
        load_keys(key_ring, p.k, step + 1);
        load_keys(value_ring, p.v, step);
      }
      before += steps.count;
    }
    commit_copies();
    wait_for_copies<0>();
    return;
  }

  take_registers<kReaderRegisters>();
  const int first_row = 64 * warpgroup, warp_row = 16 * warp();
  // Turns go around: each warpgroup waits for the one before it, and lets the next one go.
  const auto wait_for_turn = [&] {
    if (kTurns) barrier_wait(1 + warpgroup, 2 * kWarpgroup);
  };
  const auto end_turn = [&] {
    if (kTurns) barrier_arrive(1 + (warpgroup + 1) % kWarpgroups, 2 * kWarpgroup);
  };
  if (warpgroup == kWarpgroups - 1) end_turn();

  for (Tiles tiles(p); tiles.more(); tiles.next()) {
    const Work work = tiles.work();
    const int first_query = work.tile * kRows;
    const KeySteps<kKeys> steps(visible, first_query, kRows);
    WarpgroupQueries<kKeys> mine(p.scale_log2);
    const auto weigh = [&](int step) {
      return mine.weigh(p, work, visible, first_query + warp_row, steps.begin + step * kKeys);
    };
    const QueryRows q_tile = query_ring.take(tiles.round);
    if (steps.count > 0) {
      mine.multiply_keys(q_tile, first_row, key_ring.take(before));
      wait_for_products<0>();
      key_ring.release(before);
      weigh(0);
      mine.pack_weights();
      for (int step = 1; step < steps.count; ++step) {
        wait_for_turn();
        mine.multiply_keys(q_tile, first_row, key_ring.take(before + step));
        mine.multiply_values(value_ring.take(before + step - 1));
        end_turn();
        wait_for_products<1>();
        key_ring.release(before + step);
        const bool raised = weigh(step);
        wait_for_products<0>();
        value_ring.release(before + step - 1);
        fence_registers(mine.output[0]);
        if (raised) mine.softmax.rescale(mine.output);
        mine.pack_weights();
      }
      before += steps.count;
      mine.multiply_values(value_ring.take(before - 1));
      wait_for_products<0>();
      value_ring.release(before - 1);
      fence_registers(mine.output[0]);
    }
    barrier_wait(1 + kWarpgroups + warpgroup, kWarpgroup);  // queries make room for results
    finish_rows(p, work, mine.softmax, mine.output, q_tile, kRows, warp_row);
    query_ring.release(tiles.round);
  }
}

}  // namespace ridgeline

// Attention forward on Hopper, for many heads of short sequences, which take longer to read than to compute. A block is one
// warpgroup that works on one head of keys after the other: all its keys and values lie in shared memory at once, and the
// queries that see them come 64 at a time. What comes next is copied as soon as its place is free. A multiprocessor holds
// several blocks, so that one computes while another waits.
//
// Constants beside those of flash_common.cuh: KEYS (a step), STEPS (which hold all keys of a head), BLOCKS (a multiprocessor
// should hold).
#include "flash_forward_warpgroups.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kRows = 64, kKeys = KEYS, kSteps = STEPS;
constexpr int kThreads = kWarpgroup, kWarps = kThreads / 32;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;
using QueryRing = TileRing<QueryRows, 2>;
using KeyRing = TileRing<KeyRows, kSteps>;

// The tiles of queries that a block works on: those of all heads that share a head of keys, then those of the next one.
struct QueryTiles {
  const FlashForwardParams& p;
  unsigned key_head = blockIdx.x;  // of all batches
  int tile = 0;

  __device__ __forceinline__ explicit QueryTiles(const FlashForwardParams& params) : p(params) {}
  __device__ __forceinline__ unsigned heads_of_batch() const { return unsigned(p.heads) / unsigned(p.group); }
  __device__ __forceinline__ bool more() const { return key_head < heads_of_batch() * p.batches; }
  __device__ __forceinline__ bool last_of_head() const { return tile + 1 == p.group * p.query_tiles; }
  __device__ __forceinline__ Work work() const {
    return kept(Work(tile % p.query_tiles, int(key_head / heads_of_batch()),
                     int(key_head % heads_of_batch()) * p.group + tile / p.query_tiles));
  }
  __device__ __forceinline__ void next() {
    if (last_of_head())
      tile = 0, key_head += gridDim.x;
    else
      ++tile;
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, BLOCKS)
flash_forward_warpgroups_heads(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const unsigned barriers = shared_address() + QueryRing::kTileBytes + 2 * KeyRing::kTileBytes;
  const QueryRing query_ring{shared_address(), barriers};
  const auto key_ring = ring_after<KeyRing>(query_ring), value_ring = ring_after<KeyRing>(key_ring);
  const bool is_loader = threadIdx.x == 0;
  if (is_loader) {
    query_ring.set_up(1, kWarps);
    key_ring.set_up(1, kWarps);
    value_ring.set_up(1, kWarps);
    publish_barriers();
  }
  __syncthreads();

  const unsigned long long policy = evict_first();
  QueryTiles to_load(p);
  int loaded = 0;
  const auto load_queries = [&] {
    if (!to_load.more()) return;
    if (is_loader) {
      const Work work = to_load.work();
      query_ring.fill(loaded, QueryRows::kBytes, [&](QueryRows tile, PhaseBarrier arrived) {
        copy_tile(tile, p.q_map, {work.tile * kRows, work.head, work.batch}, arrived, policy);
      });
    }
    __syncwarp();
    ++loaded;
    to_load.next();
  };
  // Of the head of keys that is number `round` of this block's.
  const auto load_keys = [&](const KeyRing& ring, const TensorMap& map, int round) {
    QueryTiles first(p);
    first.key_head += round * gridDim.x;
    if (is_loader && first.more()) {
      const Work work = first.work();
      for (int step = 0; step < kSteps; ++step)
        ring.fill(round * kSteps + step, KeyRows::kBytes, [&](KeyRows tile, PhaseBarrier arrived) {
          copy_tile(tile, map, {step * kKeys, work.head / p.group, work.batch}, arrived, policy);
        });
    }
    __syncwarp();
  };
  load_queries();
  load_keys(key_ring, p.k_map, 0);
  load_keys(value_ring, p.v_map, 0);
  load_queries();

  const int warp_row = 16 * warp();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  int round = 0, number = 0;  // of the head of keys, of the tile
  for (QueryTiles tiles(p); tiles.more(); tiles.next(), ++number) {
    const Work work = tiles.work();
    const bool is_last = tiles.last_of_head();
    // All of a head, also what nobody saw: it has to have arrived before its place is used again.
    const auto release_all = [&](const KeyRing& ring) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        ring.take(round * kSteps + step);
        ring.release(round * kSteps + step);
      }
    };
    const int first_query = work.tile * kRows;
    const KeySteps<kKeys> steps(visible, first_query, kRows);
    const int first_step = round * kSteps + min(steps.begin / kKeys, kSteps - 1);
    WarpgroupQueries<kKeys> mine(p.scale_log2);
    const auto weigh = [&](int step) {
      return mine.weigh(p, work, visible, first_query + warp_row, steps.begin + step * kKeys, steps.whole(step));
    };
    const QueryRows q_tile = query_ring.take(number);
    mine.multiply_keys(q_tile, 0, key_ring.take(first_step));
    wait_for_products<0>();
    weigh(0);
    mine.pack_weights();
    for (int step = 1; step < steps.count; ++step) {
      mine.multiply_keys(q_tile, 0, key_ring.take(first_step + step));
      mine.multiply_values(value_ring.take(first_step + step - 1), step > 1);
      wait_for_products<1>();
      const bool raised = weigh(step);
      wait_for_products<0>();
      fence_registers(mine.output[0]);
      if (raised) mine.softmax.rescale(mine.output);
      mine.pack_weights();
    }
    mine.multiply_values(value_ring.take(first_step + steps.count - 1), steps.count > 1);
    query_ring.release(number);
    if (is_last) {
      release_all(key_ring);
      load_keys(key_ring, p.k_map, round + 1);
    }
    load_queries();
    wait_for_products<0>();
    fence_registers(mine.output[0]);
    if (is_last) {
      release_all(value_ring);
      load_keys(value_ring, p.v_map, round + 1);
      ++round;
    }
    finish_rows_directly(p, work, mine.softmax, mine.output, kRows, warp_row);
  }
}

}  // namespace ridgeline

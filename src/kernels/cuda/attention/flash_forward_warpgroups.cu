// Attention forward on Hopper, warp-specialised. A producer thread issues TMA copies as far ahead as the rings have
// free stages; each consumer warpgroup keeps 64 queries and loops over the keys at its own pace. The softmax of a step
// overlaps with the product P V of the step before it and with the products of other warpgroups. A multiprocessor holds
// one block.
//
// Constants beside those of flash_common.cuh:
//   ROWS          queries of a tile
//   KEYS          keys of a step
//   STAGES        tiles of keys, and as many of values, in shared memory
//   QUERY_STAGES  tiles of queries in shared memory
//   PERSISTENT    a block processes several tiles, see Tiles
//   DIRECT        persistent blocks store results from registers instead of through the tile of queries; with two query
//                 stages they do so while the first scores of the next tile are computed
#include "flash_forward_warpgroups.cuh"
#include "tensor_map.cuh"

namespace ridgeline {

constexpr int kRows = ROWS, kKeys = KEYS;
constexpr int kWarpgroups = kRows / 64;
constexpr int kThreads = kWarpgroup * (kWarpgroups + 1);
constexpr bool kPersistent = PERSISTENT, kDirect = DIRECT, kAhead = kDirect && QUERY_STAGES > 1;
static_assert(!kDirect || kPersistent);

// Registers per thread: an even share at launch, until setmaxnreg moves most of the producer's to the consumers.
constexpr int kFirstRegisters = 65536 / kThreads / 8 * 8;
constexpr int kProducerRegisters = kWarpgroups == 3 ? 32 : 24;
constexpr int kConsumerRegisters = (kFirstRegisters * (kWarpgroups + 1) - kProducerRegisters) / kWarpgroups / 8 * 8;

using QueryRows = Panels<kRows, kHeadDim>;
using KeyRows = Panels<kKeys, kHeadDim>;
using QueryRing = TileRing<QueryRows, QUERY_STAGES>;
using KeyRing = TileRing<KeyRows, STAGES>;

// Tiles differ in length with a mask, so persistent blocks then draw them from a counter, the longest first, instead of
// taking every gridDim.x-th. The producer thread draws, and passes the numbers of the tiles to the consumers.
constexpr bool kDraws = kPersistent && kMasked;
struct TileNumber {
  static constexpr int kBytes = 16;
  unsigned address;

  __device__ __forceinline__ void store(unsigned number) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(number) : "memory");
  }
  __device__ __forceinline__ unsigned load() const {
    unsigned number;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(number) : "r"(address) : "memory");
    return number;
  }
};
using NumberRing = TileRing<TileNumber, 2, true>;

// The tiles of queries that a block processes: one, or several in turn if the block is persistent, so that the loads of
// a tile overlap with the end of the tile before it.
template <bool kProducer>
struct Tiles {
  const FlashForwardParams& p;
  const NumberRing numbers;
  int round = 0;
  unsigned number = first();

  __device__ __forceinline__ bool more() const {
    return kPersistent ? number < unsigned(p.query_tiles) * p.heads * p.batches : round == 0;
  }
  __device__ __forceinline__ void next() {
    ++round;
    number = kDraws ? draw() : number + gridDim.x;
  }
  __device__ __forceinline__ BlockTile block_tile() const {
    if constexpr (!kPersistent) return BlockTile(p.query_tiles, p.heads, p.batches, p.heads_at_once, kMasked);
    const unsigned tiles = p.query_tiles, heads = p.heads, head = number / tiles;
    BlockTile own = kDraws ? BlockTile(number, tiles, heads, p.batches, p.heads_at_once, true)
                           : BlockTile(int(number % tiles), int(head / heads), int(head % heads));
    // Otherwise the compiler divides again in every step: 8 % of a causal forward pass.
    asm volatile("" : "+r"(own.tile), "+r"(own.batch), "+r"(own.head));
    return own;
  }

 private:
  __device__ __forceinline__ unsigned first() const { return kDraws ? draw() : blockIdx.x; }
  __device__ __forceinline__ unsigned draw() const {
    if constexpr (kProducer) {
      const unsigned drawn = atomicAdd(p.next_tile, 1u);
      numbers.acquire_empty(round).store(drawn);
      numbers.commit_full(round);
      return drawn;
    } else {
      const unsigned drawn = numbers.wait_full(round).load();
      numbers.release(round);
      return drawn;
    }
  }
};

// The producer thread: copies the queries, keys and values of all tiles in the order in which they are read.
__device__ __forceinline__ void load_tiles(const FlashForwardParams& p, const Visible& visible, QueryRing query_ring,
                                           KeyRing key_ring, KeyRing value_ring, NumberRing numbers) {
  const unsigned long long once = evict_first(), often = evict_last();
  int before = 0;  // steps of earlier tiles
  for (Tiles<true> tiles{p, numbers}; tiles.more(); tiles.next()) {
    const BlockTile own = tiles.block_tile();
    const KeySteps<kKeys> steps(visible, own.tile * kRows, kRows, visible_keys<kRows>(p, own));
    const auto load_keys = [&](const KeyRing& ring, const TensorMap& map, int step) {
      if (step < steps.count)
        ring.fill(before + step, KeyRows::kBytes, [&](KeyRows tile, MBarrier arrived) {
          copy_tile(tile, map, {steps.begin + step * kKeys, own.head / p.group, own.batch}, arrived, often);
        });
    };
    load_keys(key_ring, p.k_map, 0);
    query_ring.fill(tiles.round, QueryRows::kBytes, [&](QueryRows tile, MBarrier arrived) {
      copy_tile(tile, p.q_map, {own.tile * kRows, own.head, own.batch}, arrived, once);
    });
    for (int step = 0; step < steps.count; ++step) {
      load_keys(key_ring, p.k_map, step + 1);
      load_keys(value_ring, p.v_map, step);
    }
    before += steps.count;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
flash_forward_warpgroups(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  const unsigned barriers = shared_address() + QueryRing::kTileBytes + 2 * KeyRing::kTileBytes +
                            (kDraws ? NumberRing::kTileBytes : 0);
  const QueryRing query_ring{shared_address(), barriers};
  const auto key_ring = ring_after<KeyRing>(query_ring), value_ring = ring_after<KeyRing>(key_ring);
  const auto numbers = ring_after<NumberRing>(value_ring);
  if (threadIdx.x == 0) {
    query_ring.set_up(1, 4 * kWarpgroups);
    key_ring.set_up(1, 4 * kWarpgroups);
    value_ring.set_up(1, 4 * kWarpgroups);
    if (kDraws) numbers.set_up(1, 4 * kWarpgroups);
    fence_barrier_init();
  }
  __syncthreads();
  const Visible visible{p.mask_first, p.mask_last, p.queries, p.keys};
  const int warpgroup = warpgroup_number();

  if (warpgroup == kWarpgroups) {
    decrease_registers<kProducerRegisters>();
    if (threadIdx.x == kWarpgroups * kWarpgroup) load_tiles(p, visible, query_ring, key_ring, value_ring, numbers);
    return;
  }

  increase_registers<kConsumerRegisters>();
  const int first_row = 64 * warpgroup, warp_row = 16 * warp();
  // Warpgroups start their products in turn (ping-pong), so that one computes its softmax while another multiplies.
  // Named barrier 1 + w admits warpgroup w.
  const auto wait_for_turn = [&] { barrier_wait(1 + warpgroup, 2 * kWarpgroup); };
  const auto end_turn = [&] { barrier_arrive(1 + (warpgroup + 1) % kWarpgroups, 2 * kWarpgroup); };
  if (warpgroup == kWarpgroups - 1) end_turn();

  int before = 0;  // steps of earlier tiles
  WarpgroupQueries<kKeys> mine(p.scale_log2);
  const auto start_first_scores = [&](int round) {
    mine.multiply_keys(query_ring.wait_full(round), first_row, key_ring.wait_full(before));
  };
  for (Tiles<false> tiles{p, numbers}; tiles.more();) {
    const int round = tiles.round;
    const BlockTile own = tiles.block_tile();
    const int first_query = own.tile * kRows;
    const KeySteps<kKeys> steps(visible, first_query, kRows, visible_keys<kRows>(p, own));
    const QueryRows q_tile = query_ring.tile(round);
    const auto weigh = [&](int step, bool whole) {
      return mine.weigh(p, own, visible, first_query + warp_row, steps.begin + step * kKeys, whole);
    };
    if (!kAhead || round == 0) {
      start_first_scores(round);
      wgmma_wait<0>();
      key_ring.release(before);
    }
    mine.softmax = RunningSoftmax<1>([&](int) { return p.scale_log2; });
    weigh(0, steps.whole(0));
    mine.pack_weights();
    int step = 1;
    const auto walk_to = [&]<bool kWhole>(int end) {
      for (; step < end; ++step) {
        wait_for_turn();
        mine.multiply_keys(q_tile, first_row, key_ring.wait_full(before + step));
        mine.multiply_values(value_ring.wait_full(before + step - 1), step > 1);
        end_turn();
        wgmma_wait<1>();
        key_ring.release(before + step);
        const bool raised = weigh(step, kWhole);
        wgmma_wait<0>();
        value_ring.release(before + step - 1);
        fence_registers(mine.output[0]);
        if (raised) mine.softmax.rescale(mine.output);
        mine.pack_weights();
      }
    };
    // Most steps need no masking and have a loop of their own.
    if constexpr (MASK == 2) walk_to.template operator()<false>(steps.first_whole);
    walk_to.template operator()<true>(steps.end_whole);
    walk_to.template operator()<false>(steps.count);
    before += steps.count;
    if constexpr (kDirect) query_ring.release(round);
    mine.multiply_values(value_ring.wait_full(before - 1), steps.count > 1);
    tiles.next();
    const auto finish = [&] {
      value_ring.release(before - 1);
      fence_registers(mine.output[0]);
      if constexpr (kDirect) {
        finish_rows_directly(p, own, mine.softmax, mine.output, kRows, warp_row);
      } else {
        barrier_wait(1 + kWarpgroups + warpgroup, kWarpgroup);  // results are staged in the tile of queries
        finish_rows(p, own, mine.softmax, mine.output, q_tile, kRows, warp_row);
        fence_async_proxy();
        query_ring.release(round);
      }
    };
    if (kAhead && tiles.more()) {
      start_first_scores(tiles.round);
      wgmma_wait<1>();
      finish();
      wgmma_wait<0>();
      key_ring.release(before);
    } else {
      wgmma_wait<0>();
      finish();
    }
  }
}

}  // namespace ridgeline

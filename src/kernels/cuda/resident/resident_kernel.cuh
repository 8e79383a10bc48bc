// The resident kernel. Generated text before it defines run_local(), the steps between products, and of_pair().
//
// Constants from the host:
//   BLOCKS, WARPS              blocks of the grid, consumer warps of a block
//   STAGES, STAGE_BYTES        the ring of weights, keys and values
//   SIDE_SLOTS, SIDE_BYTES     the ring of side vectors
//   VALUE_BYTES                values between steps, in shared memory
//   ITEMS                      steps
//   PARTIALS                   16-row partial sums of a product
//   HEAD_DIM, GROUP, KEY_HEADS, SCALE   of attention; KEY_HEADS is 0 without it
#pragma once

#include "resident_attention.cuh"

namespace ridgeline {

constexpr int kStages = STAGES, kStageBytes = STAGE_BYTES, kSideSlots = SIDE_SLOTS, kSideBytes = SIDE_BYTES;
constexpr int kHeadTiles = 8;  // of the last product, between two searches for the largest
constexpr int kStagesAtOnce =
    2;  // released after results have arrived, so that new weights do not delay the next results
constexpr float kScale = SCALE;  // of attention

struct Shared {
  __align__(16) char values[VALUE_BYTES];
  __align__(16) char sides[kSideSlots * kSideBytes];
  ResidentItem items[ITEMS];
  float partial[2][PARTIALS * 16];
  float scratch[4][kWarps];
  Best best[kWarps];
  AttentionScratch attention;
  uint64 barriers[2 * kStages], side_barriers[2 * kSideSlots];
};
constexpr int kRingAt = (sizeof(Shared) + 127) / 128 * 128;

using WeightRing = Ring<kStages, kStageBytes>;
using SideRing = Sides<kSideSlots, kSideBytes>;

// Computes this block's share of each product.
RESIDENT void share_products(const ResidentParams& p, Shared& s) {
  constexpr int kItemWords = sizeof(ResidentItem) / 8;
  for (int i = threadIdx.x; i < kItemWords * ITEMS; i += blockDim.x)
    reinterpret_cast<uint64*>(s.items)[i] = reinterpret_cast<const uint64*>(p.items)[i];
  __syncthreads();
  for (int i = threadIdx.x; i < ITEMS; i += blockDim.x) {
    ResidentItem& item = s.items[i];
    if (item.kind < kResidentProduct || item.kind > kResidentHead) continue;
    const Share share = share_of(item.all_rows);
    item.first = share.first;
    item.rows = share.rows;
    item.stages = (item.kind == kResidentPairs ? (share.rows + 7) / 8 : (share.rows + 15) / 16) * item.chunks;
    item.shift = item.kind == kResidentHead || item.stages > kWarps / 2 ? -1
                 : item.stages == 1                                     ? 3
                 : item.stages == 2                                     ? 2
                                                                        : 1;
  }
  __syncthreads();
}

// The producer warp: streams weights, keys and values, and side vectors.
RESIDENT void stream(const ResidentParams& p, Shared& s, WeightRing& ring, SideRing& sides, const CacheShare& cache) {
  const int lane = threadIdx.x % 32;
  const auto vector_of = [&](int i) {
    return lane < kResidentSides && i < ITEMS ? p.vectors[i * kResidentSides + lane] : ResidentVector{};
  };
  ResidentVector vector = vector_of(0);
  int position = -1;  // known once earlier kernels have ended
#pragma unroll 1
  for (int step = 0, i = 0; step < ITEMS * p.turns; ++step, i = i + 1 == ITEMS ? 0 : i + 1) {
    const ResidentItem& item = s.items[i];
    if (i == 0 && step > 0) position += p.advance;
    const ResidentVector next = vector_of(i + 1 == ITEMS ? 0 : i + 1);
    if (item.sides) sides.load(static_cast<const char*>(vector.from), vector.at, vector.bytes, item.side_bytes);
    vector = next;
#if KEY_HEADS > 0
    if (item.kind == kResidentAttention) {
      if (position < 0) {
        wait_for_earlier_kernels();
        position = *p.position;
      }
      load_cache<HEAD_DIM>(ring, static_cast<const char*>(item.weights), static_cast<const char*>(item.values), cache,
                           position, item.slots);
    }
#endif
    if (item.kind >= kResidentProduct && item.kind <= kResidentHead)
      load_product(ring, static_cast<const char*>(item.weights), item.first, item.rows, item.steps, item.chunks,
                   item.kind == kResidentPairs ? item.all_rows : 0);
  }
}

// Adds up the partial sums of the block's rows and publishes the results to all blocks.
RESIDENT void publish_rows(const ResidentItem& item, const float* partial, uint64* words, uint32 turn) {
  const int slots = slots_of(item), pair = threadIdx.x;
  if (2 * pair >= item.rows) return;
  const bool pairs = item.kind == kResidentPairs;
  const int row = pairs ? pair / 4 * 16 + pair % 4 * 2 : 2 * pair;
  const float* from = partial + row / 16 * slots * 16 + row % 16;
  float2 low = {0, 0}, high = {0, 0};
#pragma unroll 4
  for (int slot = 0; slot < slots; ++slot) {
    const float2 a = *reinterpret_cast<const float2*>(from + slot * 16),
                 b = *reinterpret_cast<const float2*>(from + slot * 16 + (pairs ? 8 : 0));
    low.x += a.x, low.y += a.y, high.x += b.x, high.y += b.y;
  }
  if (pairs)
    low = {of_pair(item.at[2], round_bf16(low.x), round_bf16(high.x)),
           of_pair(item.at[2], round_bf16(low.y), round_bf16(high.y))};
  publish(words + item.first / 2 + pair, narrow_pair(low.x, low.y), turn);
}

// Publishes the block's largest value. Returns the index of the largest over all blocks if `wants_it`, else 0.
RESIDENT int find_largest(Best best, Best* scratch, uint64* words, uint32 turn, bool wants_it) {
  best = block_best(best, scratch);
  if (threadIdx.x == 0) {
    publish(words + 2 * blockIdx.x, __float_as_uint(best.value), turn);
    publish(words + 2 * blockIdx.x + 1, best.index, turn);
  }
  if (!wants_it) return 0;
  best = {-infinity(), 0};
  if (threadIdx.x < kBlocks) {
    Words w;
    do w = poll(words + 2 * threadIdx.x);
    while (!has_turn(w, turn));
    best = {__uint_as_float(static_cast<uint32>(w.first)), static_cast<int>(static_cast<uint32>(w.second))};
  }
  sync_consumers();
  return block_best(best, scratch).index;
}

// Stores the results of a turn, by one thread of one block.
RESIDENT void end_turn(const ResidentParams& p, int largest, int position) {
  if (p.largest) *p.largest = largest;
#pragma unroll
  for (int i = 0; i < kResidentTargets; ++i)
    if (p.targets[i].to) p.targets[i].to[position % p.targets[i].slots] = largest;
  if (p.advance) *p.position = position + p.advance;
}

extern "C" __global__ void __launch_bounds__(kThreads + 32, 1)
    RESIDENT_KERNEL(const __grid_constant__ ResidentParams p) {
  extern __shared__ __align__(128) char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  SideRing sides{s.sides, shared_address(s.side_barriers)};
  WeightRing ring{shared_address(memory + kRingAt), shared_address(s.barriers)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      mbarrier_init(ring.barriers + i * 8, 1);
      mbarrier_init(ring.barriers + (kStages + i) * 8, kWarps);
    }
    for (int i = 0; i < kSideSlots; ++i) {
      mbarrier_init(sides.barriers + i * 8, 1);
      mbarrier_init(sides.barriers + (kSideSlots + i) * 8, kWarps);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  share_products(p, s);
  const CacheShare cache = cache_share(KEY_HEADS > 0 ? KEY_HEADS : 1);
  if (threadIdx.x >= kThreads) return stream(p, s, ring, sides, cache);

  wait_for_earlier_kernels();
  const uint32 first_turn = *p.turn + 1;
  const int first_position = p.position ? *p.position : 0;
  int token = 0;  // found by the turn before
  int held = 0;  // stages to be released
  const auto release_held = [&](int most) {
    const int count = held < most ? held : most;
    ring.release(held, count);
    held -= count;
  };
#pragma unroll 1
  for (int step = 0, number = 0, run = 0; step < ITEMS * p.turns; ++step) {
    const ResidentItem& item = s.items[number];
    const uint32 turn = first_turn + run;
    const int position = first_position + run * p.advance;
    uint64* words = p.words + item.words;
    switch (item.kind) {
      case kResidentGather: {
        const int row = item.slots == kIndexIsPosition         ? position
                        : item.slots == kIndexIsToken && run > 0 ? token
                                                                 : *static_cast<const int*>(item.values);
        const uint32* from = static_cast<const uint32*>(item.weights) + static_cast<int64>(row) * (item.depth / 2);
        for (int i = threadIdx.x; i < item.depth / 2; i += kThreads)
          reinterpret_cast<uint32*>(s.values + item.at[0])[i] = from[i];
        sync_consumers();
        break;
      }
      case kResidentProduct:
      case kResidentPairs:
      case kResidentHead: {
        Best best{-infinity(), 0};
        if (item.shift < 0) release_held(held);  // stages held come right before this product's
        if (item.kind == kResidentHead) {
          asm volatile("fence.proxy.async;" ::
                           : "memory");  // orders this turn's keys and values before the loads of the next
        }
        int odd = number & 1;
#pragma unroll 1
        for (int base = 0; base < item.stages; base += kHeadTiles * item.chunks, odd ^= 1) {
          int stages = item.stages - base;
          if (item.kind == kResidentHead && stages > kHeadTiles * item.chunks) stages = kHeadTiles * item.chunks;
          multiply_rows(ring, stages, item.shift, item.chunks, item.steps, shared_address(s.values + item.at[0]),
                        s.partial[odd]);
          sync_consumers();
          if (item.kind != kResidentHead) break;
          const int row = base / item.chunks * 16 + threadIdx.x;
          if (threadIdx.x < kHeadTiles * 16 && row < item.rows) {
            const bf16 logit = Narrow<bf16>::from(total_of(s.partial[odd], item.chunks, threadIdx.x));
            best = better(best, {widen(logit), item.first + row});
            if (p.logits) static_cast<bf16*>(p.logits)[item.first + row] = logit;
          }
        }
        if (item.kind == kResidentHead) {
          // A block that goes on to another turn waits for all others, so that it overwrites no word still being read.
          const bool goes_on = run + 1 < p.turns;
          token = find_largest(best, s.best, words, turn, goes_on || blockIdx.x == 0);
          if (blockIdx.x == 0 && threadIdx.x == 0) end_turn(p, token, position);
          break;
        }
        publish_rows(item, s.partial[odd], words, turn);
        receive(words, item.all_rows / 4, s.values + item.at[1], turn);
        sync_consumers();
        if (item.shift >= 0) held += item.stages;
        release_held(kStagesAtOnce);
        break;
      }
#if KEY_HEADS > 0
      case kResidentAttention:
        release_held(held);  // before the cache takes stages
        attend<HEAD_DIM, GROUP>(ring, cache, s.attention, s.values + item.at[0], s.values + item.at[1],
                                s.values + item.at[2], static_cast<char*>(const_cast<void*>(item.weights)),
                                static_cast<char*>(item.values), position, item.slots, item.window, kScale, words,
                                turn);
        receive_attention<HEAD_DIM, GROUP>(words, KEY_HEADS, cache.splits, position, item.slots,
                                           s.values + item.at[3], turn);
        sync_consumers();
        break;
#endif
      default: {
        const char* side = item.sides ? sides.wait() : nullptr;
        run_local(item, s.values, side, s.scratch);
        if (item.sides) sides.done();
        sync_consumers();
      }
    }
    if (++number == ITEMS) number = 0, ++run;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *p.turn = first_turn + p.turns - 1;
}

}  // namespace ridgeline

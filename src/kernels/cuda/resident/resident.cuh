// Building blocks of a resident kernel (plan/resident.h): a persistent kernel with one block on every multiprocessor.
//
// A producer warp streams weights into a ring in shared memory, ahead of everything that depends on data; the consumer
// warps compute. A turn is one pass through all steps, for one token. Blocks exchange results in words of a number and
// its turn: a consumer polls the words until they carry the current turn, so that no grid-wide barrier is needed.
#pragma once

#include "fused.cuh"
#include "params.h"

namespace ridgeline {

#define RESIDENT __device__ __forceinline__

using uint32 = unsigned;
using uint64 = unsigned long long;

constexpr uint32 kBlocks = BLOCKS;
constexpr int kWarps = WARPS, kThreads = 32 * kWarps;  // of the consumers
constexpr int kRowPadding = 16;                    // bytes after each row of the ring, against bank conflicts

RESIDENT uint32 narrow_pair(float low, float high) {
  uint32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

RESIDENT float widen_low(uint32 pair) {
  return __uint_as_float(pair << 16);
}

RESIDENT float widen_high(uint32 pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

RESIDENT uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

RESIDENT void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

template <class Fold>
RESIDENT float fold_warp(float value) {
  return fold_group<Fold, 32>(value);
}

// Folds over all consumers. `scratch` has a number for each warp and must not be reused before two barriers later.
template <class Fold>
RESIDENT float fold_block(float value, float* scratch) {
  value = fold_warp<Fold>(value);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  sync_consumers();
  value = scratch[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) value = Fold::fold(value, scratch[i]);
  return value;
}

RESIDENT void mbarrier_init(uint32 barrier, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

RESIDENT void mbarrier_wait(uint32 barrier, uint32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again;\n}\n" ::
          "r"(barrier),
      "r"(parity)
      : "memory");
}

RESIDENT void mbarrier_arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

RESIDENT void mbarrier_expect(uint32 barrier, uint32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

RESIDENT void bulk_copy(uint32 to, const void* from, uint32 bytes, uint32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

template <int kStages, int kStageBytes>
struct Ring {
  uint32 data, barriers;  // full barriers, then empty barriers
  int stage = 0;
  uint32 parity = 0;
  RESIDENT uint32 full() const { return barriers + stage * 8; }
  RESIDENT uint32 empty() const { return barriers + (kStages + stage) * 8; }
  RESIDENT uint32 here() const { return data + stage * kStageBytes; }
  RESIDENT void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  RESIDENT void skip(int count) {
    stage += count;
    if (stage >= kStages) {
      stage -= kStages;
      parity ^= 1;
    }
  }
  RESIDENT void wait() const { mbarrier_wait(full(), parity); }
  RESIDENT void done() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty());
    next();
  }
  // Releases `count` stages, from the one `before` stages before the current one on.
  RESIDENT void release(int before, int count) const {
    const int lane = threadIdx.x % 32;
    if (lane < count) {
      int at = stage - before + lane;
      if (at < 0) at += kStages;
      mbarrier_arrive(barriers + (kStages + at) * 8);
    }
  }
};

// A ring of side vectors, short ones that every block needs: weights of norms, rotations.
template <int kSlots, int kBytes>
struct Sides {
  char* data;
  uint32 barriers;
  int slot = 0;
  uint32 parity = 0;
  RESIDENT uint32 full() const { return barriers + slot * 8; }
  RESIDENT uint32 empty() const { return barriers + (kSlots + slot) * 8; }
  RESIDENT void next() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
  // The producer warp: lane i copies vector i to its offset.
  RESIDENT void load(const char* from, int at, int bytes, int all) {
    mbarrier_wait(empty(), parity ^ 1);
    if (threadIdx.x % 32 == 0) mbarrier_expect(full(), all);
    __syncwarp();
    if (bytes > 0) bulk_copy(shared_address(data + slot * kBytes) + at, from, bytes, full());
    next();
  }
  RESIDENT const char* wait() const {
    mbarrier_wait(full(), parity);
    return data + slot * kBytes;
  }
  RESIDENT void done() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty());
    next();
  }
};

// Writes a word of a number and its turn.
RESIDENT void publish(uint64* word, uint32 value, uint32 turn) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(static_cast<uint64>(turn) << 32 | value)
               : "memory");
}

struct Words {
  uint64 first, second;
};

RESIDENT Words poll(const uint64* words) {
  Words w;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(w.first), "=l"(w.second)
               : "l"(words)
               : "memory");
  return w;
}

RESIDENT bool has_turn(const Words& w, uint32 turn) {
  return static_cast<uint32>(w.first >> 32) == turn && static_cast<uint32>(w.second >> 32) == turn;
}

// Receives vectors of two words, two bf16 each, into shared memory.
RESIDENT void receive(const uint64* words, int vectors, char* to, uint32 turn) {
  constexpr int kBatch = 4;
#pragma unroll 1
  for (int base = threadIdx.x; base < vectors; base += kThreads * kBatch) {
    Words got[kBatch];
    bool arrived;
    do {
      arrived = true;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int v = base + i * kThreads;
        if (v < vectors) got[i] = poll(words + 2 * v);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (base + i * kThreads < vectors) arrived = arrived && has_turn(got[i], turn);
    } while (!arrived);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int v = base + i * kThreads;
      if (v < vectors)
        reinterpret_cast<uint2*>(to)[v] =
            make_uint2(static_cast<uint32>(got[i].first), static_cast<uint32>(got[i].second));
    }
  }
}

}  // namespace ridgeline

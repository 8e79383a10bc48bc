// Attention of one query over a cache in a resident kernel, in units of 64 slots that a block gets from the ring.
#pragma once

#include "resident_products.cuh"

namespace ridgeline {

template <int kDim>
constexpr int kWordsOfHead = kDim / 2 + 2;  // pairs of elements, then the log-sum-exp twice
// Blocks are divided among key heads, and those of a head take units of its slots in turn.
constexpr int kUnit = 64, kHalf = 32, kMostSplits = 16;
struct CacheShare {
  int key_head, split, splits;
  bool takes_part;
};

RESIDENT CacheShare cache_share(const int key_heads) {
  int splits = static_cast<int>(kBlocks) / key_heads;
  splits = splits < kMostSplits ? splits : kMostSplits;
  const int key_head = blockIdx.x / splits;
  return {key_head, static_cast<int>(blockIdx.x) % splits, splits, key_head < key_heads};
}

struct Filled {
  int slot, units;
};

RESIDENT Filled filled(int position, int capacity) {
  if (position < capacity) return {position, (position + kUnit) / kUnit};
  return {position % capacity, (capacity + kUnit - 1) / kUnit};
}

template <int kDim, class R>
RESIDENT void load_cache(R& ring, const char* keys, const char* values, const CacheShare& share, int position,
                         int capacity) {
  if (!share.takes_part) return;
  const int units = filled(position, capacity).units;
#pragma unroll 1
  for (int unit = share.split; unit < units; unit += share.splits) {
    const int64 at = (static_cast<int64>(share.key_head) * capacity + unit * kUnit) * kDim * 2;
    const int lane = threadIdx.x % 32;
    const uint32 full = ring.full();  // the first stage's barrier counts the bytes of all four
#pragma unroll 1
    for (int part = 0; part < 4; ++part) {
      mbarrier_wait(ring.empty(), ring.parity ^ 1);
      if (lane == 0) {
        if (part == 0) {
          mbarrier_expect(full, 4 * kHalf * kDim * 2);
        } else {
          mbarrier_arrive(ring.full());
        }
      }
      __syncwarp();
      bulk_copy(ring.here() + lane * (kDim * 2 + kRowPadding),
                (part < 2 ? keys : values) + at + (part % 2 * kHalf + lane) * kDim * 2, kDim * 2, full);
      ring.next();
    }
  }
}

struct AttentionScratch {
  float scores[2][2][8][kUnit + 4];  // [odd or even unit][half of the dimensions][head][key]
};

// q [key_heads][kGroup][kDim] and the newest key and value [key_heads][kDim] are in shared memory. Partial results go
// to words[key_head][split][head].
template <int kDim, int kGroup, class R>
RESIDENT void attend(R& ring, const CacheShare& share, AttentionScratch& s, const char* q, const char* new_key,
                     const char* new_value, char* keys, char* values, int position, int capacity, int window,
                     float scale, uint64* words, uint32 turn) {
  const auto [slot, units] = filled(position, capacity);
  if (!share.takes_part || share.split >= units) return;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (slot / kUnit % share.splits == share.split) {  // the block that owns the slot stores the new key and value
    const int64 place = (static_cast<int64>(share.key_head) * capacity + slot) * kDim * 2;
    for (int i = threadIdx.x; i < kDim / 2; i += kThreads) {
      reinterpret_cast<uint32*>(keys + place)[i] =
          reinterpret_cast<const uint32*>(new_key + share.key_head * kDim * 2)[i];
      reinterpret_cast<uint32*>(values + place)[i] =
          reinterpret_cast<const uint32*>(new_value + share.key_head * kDim * 2)[i];
    }
  }
  constexpr uint32 kRowBytes = kDim * 2 + kRowPadding;
  constexpr int kTilesOfWarp = kDim / 16 / kWarps;  // of the output's dimensions
  float out[kTilesOfWarp][4] = {};
  float largest = -infinity(), sum = 0;  // of head lane / 4, the same in four lanes
  q += share.key_head * kGroup * kDim * 2;
  const int head = lane / 4 < kGroup ? lane / 4 : 0;
  const bool wraps = position >= capacity || (window != 0 && position >= window);
  int odd = 0;
#pragma unroll 1
  for (int unit = share.split; unit < units; unit += share.splits, odd ^= 1) {
    uint32 at[4];  // four stages of the ring: keys, keys, values, values
    R walk = ring;
    walk.wait();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      at[i] = walk.here();
      walk.next();
    }
    const int newest = slot - unit * kUnit;
    if (newest >= 0 && newest < kUnit) {
      const bool later = newest >= kHalf;
      const uint32 row = newest % kHalf * kRowBytes;
      for (int i = threadIdx.x; i < kDim / 2; i += kThreads) {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"((later ? at[1] : at[0]) + row + i * 4),
                     "r"(reinterpret_cast<const uint32*>(new_key + share.key_head * kDim * 2)[i])
                     : "memory");
        asm volatile("st.shared.b32 [%0], %1;" ::"r"((later ? at[3] : at[2]) + row + i * 4),
                     "r"(reinterpret_cast<const uint32*>(new_value + share.key_head * kDim * 2)[i])
                     : "memory");
      }
      sync_consumers();
    }
    {  // scores [head][key]: a warp has 16 keys and half of the dimensions
      float sums[2][4] = {};
      const int tile = warp % 4, part = warp / 4;
      const uint32 a_place =
          (tile / 2 ? at[1] : at[0]) + (tile % 2 * 16 + lane % 16) * kRowBytes + lane / 16 * 16 + part * kDim;
      const uint32 b_place = shared_address(q) + (head * kDim + lane % 4 * 2) * 2 + part * kDim;
#pragma unroll 1
      for (int i = 0; i < kDim / 128; ++i) {
        Fragments fragments;
        fragments.load(a_place + i * 128, b_place + i * 128, 4);
        fragments.multiply_all(sums, 4);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (lane % 4 * 2 + i % 2 < kGroup)
          s.scores[odd][part][lane % 4 * 2 + i % 2][tile * 16 + lane / 4 + i / 2 * 8] = sums[0][i] + sums[1][i];
    }
    sync_consumers();
    // Every warp computes the softmax redundantly, in the layout of its products: keys 2 (lane % 4) + {0, 1, 8, 9}.
    float p[kUnit / 16][4];
    float most = -infinity();
#pragma unroll
    for (int k16 = 0; k16 < kUnit / 16; ++k16)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int key = k16 * 16 + half * 8 + lane % 4 * 2;
        const float2 a = *reinterpret_cast<const float2*>(&s.scores[odd][0][head][key]),
                     b = *reinterpret_cast<const float2*>(&s.scores[odd][1][head][key]);
        const float both[2] = {a.x + b.x, a.y + b.y};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          bool visible = key + i <= newest;
          if (wraps) {
            int back = newest - key - i;  // how many positions ago the slot was written
            if (back < 0) back += capacity;
            visible = back <= position && (window == 0 || back < window);
          }
          p[k16][half * 2 + i] = visible ? both[i] * scale : -infinity();
          most = fmaxf(most, p[k16][half * 2 + i]);
        }
      }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    most = fmaxf(most, largest);
    const float base = most == -infinity() ? 0 : most;
    const float rescale = __expf(largest - base);
    largest = most;
    float added = 0;
#pragma unroll
    for (int k16 = 0; k16 < kUnit / 16; ++k16)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p[k16][i] = __expf(p[k16][i] - base);
        added += p[k16][i];
      }
    added += __shfl_xor_sync(~0u, added, 1);
    added += __shfl_xor_sync(~0u, added, 2);
    sum = sum * rescale + added;
    const float low = __shfl_sync(~0u, rescale, lane % 4 * 8), high = __shfl_sync(~0u, rescale, lane % 4 * 8 + 4);
#pragma unroll
    for (int tile = 0; tile < kTilesOfWarp; ++tile) {  // output [dimension][head]
      out[tile][0] *= low, out[tile][1] *= high, out[tile][2] *= low, out[tile][3] *= high;
      const int dim = (warp * kTilesOfWarp + tile) * 16;
#pragma unroll
      for (int k16 = 0; k16 < kUnit / 16; ++k16) {
        uint32 a[4];
        // Rows of the stage are keys. Transposed: (keys 0-7, dims 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
        load_matrix_transposed(a, at[2 + k16 / 2] + (k16 % 2 * 16 + lane / 16 * 8 + lane % 8) * kRowBytes +
                                      (dim + lane / 8 % 2 * 8) * 2);
        multiply(out[tile], a, narrow_pair(p[k16][0], p[k16][1]), narrow_pair(p[k16][2], p[k16][3]));
      }
    }
    if (newest >= 0 && newest < kUnit) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i) ring.done();
  }
  uint64* to = words + static_cast<int64>(share.key_head * kMostSplits + share.split) * kGroup * kWordsOfHead<kDim>;
  const int column = lane % 4 * 2;
  const float inverse = __fdividef(1.0f, sum);
  const float scales[2] = {__shfl_sync(~0u, inverse, lane % 4 * 8), __shfl_sync(~0u, inverse, lane % 4 * 8 + 4)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (column + i >= kGroup) continue;
#pragma unroll
    for (int tile = 0; tile < kTilesOfWarp; ++tile)  // a word has the dimensions d and d + 8
      publish(to + (column + i) * kWordsOfHead<kDim> + (warp * kTilesOfWarp + tile) * 8 + lane / 4,
              narrow_pair(out[tile][i] * scales[i], out[tile][i + 2] * scales[i]), turn);
  }
  if (warp == 0 && lane % 4 < 2 && lane / 4 < kGroup)
    publish(to + lane / 4 * kWordsOfHead<kDim> + kDim / 2 + lane % 4, __float_as_uint(largest + __logf(sum)), turn);
}

// Every block combines the splits of all heads: out [key_heads][kGroup][kDim] in shared memory.
template <int kDim, int kGroup>
RESIDENT void receive_attention(const uint64* words, int key_heads, int splits, int position, int capacity, char* out,
                                uint32 turn) {
  const int units = filled(position, capacity).units;
  const int active = units < splits ? units : splits;
  constexpr int kWords = kWordsOfHead<kDim>;
#pragma unroll 1
  for (int i = threadIdx.x; i < key_heads * kGroup * kDim / 4; i += kThreads) {
    const int row = i / (kDim / 4), word = i % (kDim / 4) * 2;
    const uint64* from = words + (static_cast<int64>(row / kGroup) * kMostSplits * kGroup + row % kGroup) * kWords;
    float largest = -infinity(), sum = 0, result[4] = {};
#pragma unroll 1
    for (int base = 0; base < active; base += 4) {
      Words values[4], shares[4];
      bool arrived;
      do {
        arrived = true;
#pragma unroll
        for (int split = 0; split < 4; ++split)
          if (base + split < active) {
            values[split] = poll(from + (base + split) * kGroup * kWords + word);
            shares[split] = poll(from + (base + split) * kGroup * kWords + kDim / 2);
          }
#pragma unroll
        for (int split = 0; split < 4; ++split)
          if (base + split < active)
            arrived = arrived && has_turn(values[split], turn) && has_turn(shares[split], turn);
      } while (!arrived);
#pragma unroll
      for (int split = 0; split < 4; ++split) {
        if (base + split >= active) continue;
        const float lse = __uint_as_float(static_cast<uint32>(shares[split].first));
        const float next = fmaxf(largest, lse);
        const float old = largest == next ? 1.0f : __expf(largest - next),
                    now = lse == -infinity() ? 0.0f : __expf(lse - next);
        sum = sum * old + now;
        const uint32 first = static_cast<uint32>(values[split].first),
                     second = static_cast<uint32>(values[split].second);
        result[0] = result[0] * old + widen_low(first) * now;
        result[1] = result[1] * old + widen_low(second) * now;
        result[2] = result[2] * old + widen_high(first) * now;
        result[3] = result[3] * old + widen_high(second) * now;
        largest = next;
      }
    }
    const float scale = sum > 0 ? __fdividef(1.0f, sum) : 0.0f;
    char* to = out + (row * kDim + word / 8 * 16 + word % 8) * 2;
    *reinterpret_cast<uint32*>(to) = narrow_pair(result[0] * scale, result[1] * scale);
    *reinterpret_cast<uint32*>(to + 16) = narrow_pair(result[2] * scale, result[3] * scale);
  }
}

}  // namespace ridgeline

// For score functions that mask by conditions on operands and positions: finds, for each group of queries, the range of
// keys that any of them sees, and for each group of keys the range of queries. The Hopper kernels skip the rest. One
// block per group.
//
// Constant from the host: SCORE_VISIBLE, the body of a function (flash_function.cuh): whether a score is visible.
#include "flash_function.cuh"

namespace ridgeline {

constexpr int kThreads = 1024, kWarps = kThreads / 32;
constexpr int kTogether = 4;  // scores of a thread: a value that they share is loaded once
static_assert(kVisibleGroup == 32);

__device__ __forceinline__ bool is_visible(const ScorePlace& at) { SCORE_VISIBLE }

struct RangeFinder {
  int first = 1 << 30, last = 0;

  __device__ __forceinline__ void add(int place) { first = min(first, place), last = max(last, place + 1); }
  __device__ __forceinline__ void reduce() {
    first = __reduce_min_sync(~0u, first), last = __reduce_max_sync(~0u, last);
  }
  // Writes the range that all threads of the block together found visible.
  __device__ __forceinline__ void write(VisibleRange& to) {
    __shared__ VisibleRange of_warps[kWarps];
    reduce();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = {first, last};
    __syncthreads();
    if (threadIdx.x >= 32) return;
    first = of_warps[threadIdx.x].first, last = of_warps[threadIdx.x].last;
    reduce();
    if (threadIdx.x == 0) to = {first, last};
  }
};

extern "C" __global__ void __launch_bounds__(kThreads) flash_seen_keys(const __grid_constant__ FlashSeenParams p) {
  wait_for_earlier_kernels();
  const int group = blockIdx.x % p.groups, number = blockIdx.x / p.groups;
  ScorePlace at = {p.operands, number / p.heads, number % p.heads, 0, 0};
  RangeFinder range;
  for (int key = threadIdx.x; key < p.keys; key += kTogether * kThreads) {
    const auto key_of = [&](int t) { return min(key + t * kThreads, p.keys - 1); };
    bool any[kTogether] = {};
#pragma unroll 4
    for (int i = 0; i < kVisibleGroup; ++i) {
      at.query = min(group * kVisibleGroup + i, p.queries - 1);
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        at.key = key_of(t);
        any[t] |= is_visible(at);
      }
    }
#pragma unroll
    for (int t = 0; t < kTogether; ++t)
      if (any[t]) range.add(key_of(t));
  }
  range.write(p.ranges[blockIdx.x]);
}

extern "C" __global__ void __launch_bounds__(kThreads) flash_seen_queries(const __grid_constant__ FlashSeenParams p) {
  wait_for_earlier_kernels();
  const int group = blockIdx.x % p.groups, number = blockIdx.x / p.groups, first_head = number % p.heads * p.group;
  const int key = min(group * kVisibleGroup + int(threadIdx.x % 32), p.keys - 1);
  RangeFinder range;
  for (int head = first_head; head < first_head + p.group; ++head)
    for (int query = threadIdx.x / 32; query < p.queries; query += kTogether * kWarps) {
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        const ScorePlace at = {p.operands, number / p.heads, head, min(query + t * kWarps, p.queries - 1), key};
        if (is_visible(at)) range.add(at.query);
      }
    }
  range.write(p.ranges[blockIdx.x]);
}

}  // namespace ridgeline

// The steps over the keys, and the products and softmax of a warpgroup's 64 queries, for the Hopper forward kernels.
#pragma once

#include "flash_softmax.cuh"
#include "warpgroup.cuh"

namespace ridgeline {

// The keys that any of some queries sees, in steps of kKeys. There is at least one step, even if every key is masked.
// In the steps [first_whole, end_whole) the mask hides no key from any query. `range`: the keys that the score function
// may leave visible.
template <int kKeys>
struct KeySteps {
  int begin, count, first_whole, end_whole;

  __device__ KeySteps(const Visible& visible, int first_query, int queries, Span range) {
    const int last_query = min(first_query + queries, visible.queries) - 1;
    const Span first = visible.keys_of(first_query), last = visible.keys_of(last_query);
    begin = kSkips ? max(first.first, range.first) : first.first / kKeys * kKeys;
    const int end = kSkips ? min(last.last, range.last) : last.last;
    count = max(1, (end - begin + kKeys - 1) / kKeys);
    first_whole = (last.first - begin + kKeys - 1) / kKeys;
    end_whole = (first.last - begin) / kKeys;
    if (kSkips) first_whole = min(first_whole, count), end_whole = min(end_whole, count);
  }
  __device__ __forceinline__ bool whole(int step) const { return step >= first_whole && step < end_whole; }
};

// The keys that the score function may leave visible to the kRows queries of a tile.
template <int kRows, class Params>
__device__ __forceinline__ Span visible_keys(const Params& p, const BlockTile& own) {
  return visible_range<kRows>(p.visible_keys, own.batch, own.head, p.heads, own.tile * kRows, p.queries, p.keys);
}

template <int kKeys>
struct WarpgroupQueries {
  Accumulator output[1][kHeadDim / 8], scores[1][kKeys / 8];
  FragmentA<Element> weights[kKeys / kStep];
  RunningSoftmax<1> softmax;

  __device__ explicit WarpgroupQueries(float scale_log2) : softmax([&](int) { return scale_log2; }) {}

  // Starts scores = Q K^T for the 64 queries from `row` of a tile.
  template <class Queries, class Keys>
  __device__ __forceinline__ void multiply_keys(Queries q_tile, int row, Keys k_tile) {
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < kHeadDim; d += kStep)
      multiply_shared<Element>(scores[0], q_tile.rows_from(row, d), k_tile.rows_from(0, d), d > 0);
    wgmma_commit();
  }
  // Starts output = P V, or output += P V if `add`.
  template <class Values>
  __device__ __forceinline__ void multiply_values(Values v_tile, bool add) {
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kKeys / kStep; ++k)
      multiply_registers<Element>(output[0], weights[k], v_tile.columns_from(0, k * kStep), add || k > 0);
    wgmma_commit();
  }
  // Turns the scores of a warp's queries from `query` on and keys from `key` on into weights. Returns true if the
  // output so far must be rescaled. `whole`: every query sees every key of the step.
  __device__ __forceinline__ bool weigh(const FlashForwardParams& p, const BlockTile& own, const Visible& visible,
                                        int query, int key, bool whole) {
    fence_registers(scores[0]);
    apply_function(scores, p, own, query, key, [](int) { return 1.0f; });
    if (!whole) mask_scores(scores, query, key, [&](int row) { return visible.keys_of(row); });
    const bool raised = softmax.raise(scores);
    softmax.weigh(scores);
    return raised;
  }
  __device__ __forceinline__ void pack_weights() {
#pragma unroll
    for (int k = 0; k < kKeys / kStep; ++k) weights[k] = a_from_results<Element>(scores[0], k);
  }
};

}  // namespace ridgeline

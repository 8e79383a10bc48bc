// What the backward kernels of Hopper share: the order in which a block meets the queries that see its keys, and the
// weights that they have there.
#pragma once

#include "flash_common.cuh"
#include "flash_query_sums.cuh"
#include "warpgroup.cuh"

namespace ridgeline {

// Tiles of kQueries queries of one head, then of the next one of the group. Blocks of one head start at different
// tiles, so that they do not all add to the same sums at once; with a mask they do so anyway.
template <int kQueries, int kKeys>
struct QuerySteps {
  int begin, end, start;  // tiles in which any query sees a key of this block; the same for each head
  int count;
  int tile, head;  // of the step at hand

  __device__ QuerySteps(const FlashBackwardParams& p, const Visible& visible, const Work& work) {
    const int first_key = work.tile * kKeys, last_key = min(first_key + kKeys, p.keys) - 1;
    begin = visible.queries_of(first_key).first / kQueries;
    end = (visible.queries_of(last_key).last + kQueries - 1) / kQueries;
    const int tiles = max(end - begin, 0);
    count = tiles * p.group;
    start = kMasked || tiles == 0 ? begin : begin + work.tile % tiles;
    tile = start, head = work.head * p.group;
  }
  __device__ __forceinline__ void next() {
    if (++tile == end) tile = begin;
    if (tile == start) ++head;
  }
  __device__ __forceinline__ int head_number(const FlashBackwardParams& p, const Work& work) const {
    return work.batch * p.heads + head;
  }
  // Where log-sum-exps and dots of the tile's queries begin.
  __device__ __forceinline__ long long row(const FlashBackwardParams& p, const Work& work) const {
    return static_cast<long long>(head_number(p, work)) * p.padded_queries + tile * kQueries;
  }
  // Where the tile's sums of dQ begin.
  __device__ __forceinline__ float* sums(const FlashBackwardParams& p, const Work& work) const {
    return p.d_q_sum + (static_cast<long long>(head_number(p, work)) * p.query_tiles + tile) * (kQueries * kHeadDim);
  }
};

// Scores of a warp's 16 keys from `key` on, keys x queries from `query` on, become weights; `shifts` are those of the
// queries. Those of queries beyond the last leave no weight, so without a mask only keys beyond the last are hidden.
template <int kTiles>
__device__ __forceinline__ void weigh(Accumulator (&scores)[1][kTiles], const FlashBackwardParams& p,
                                      const Visible& visible, int key, int query, unsigned shifts) {
  const Span common = {visible.queries_of(key + 15).first, visible.queries_of(key).last};
  if (key + 16 > p.keys || (kMasked && !common.covers(query, query + 8 * kTiles)))
    hide(scores, key, kMasked ? query : 0, [&](int row) { return visible.queries_of(row); });
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float shift[2];
    load_floats(shift[0], shift[1], shifts + 4 * (8 * n + 2 * (lane() % 4)));
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[0][n].v[i] = exp2(scores[0][n].v[i] * p.scale_log2 - shift[i % 2]);
  }
}

}  // namespace ridgeline

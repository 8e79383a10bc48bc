// Shared by the kernels of attention over a cache: the rows of a block, what they see, and the stores of results.
#pragma once

#include "elements.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kLeastSplit = 16;  // positions of a split

// Query i of head g in a group of G heads is row i G + g, so that adjacent rows see nearly the same keys.
struct CachedTile {
  int64 batch, key_head;
  int first_row;

  __device__ CachedTile(const CachedAttentionParams& p, unsigned number) {
    const unsigned head = number / p.tiles;
    first_row = static_cast<int>(number - head * p.tiles) * ROWS;
    batch = head / p.key_heads;
    key_head = head % p.key_heads;
  }

  // Returns the first position that a query sees.
  __device__ static int oldest(const CachedAttentionParams& p, int position, int newest,
                               int query) {
    const int in_ring = max(0, newest - p.slots + 1);
    return p.window > 0 ? max(in_ring, position + query - p.window + 1) : in_ring;
  }

  // The positions [begin, end) that any of the tile's rows sees, in splits of `of_split`.
  struct Span {
    int begin, end, of_split;
  };
  __device__ Span span(const CachedAttentionParams& p, int position) const {
    const int newest = position + p.queries - 1, last_row = min(first_row + ROWS, p.rows) - 1;
    const int begin = oldest(p, position, newest, first_row / p.group);
    const int end = position + last_row / p.group + 1;
    return {begin, end, max(kLeastSplit, (end - begin + p.splits - 1) / p.splits)};
  }

  __device__ int64 offset(const CachedAttentionParams& p, const FlashTensor& tensor,
                          int row) const {
    const int64 head = key_head * p.group + row % p.group;
    return batch * tensor.batch + head * tensor.head +
           static_cast<int64>(row / p.group) * tensor.row;
  }
};

// A row that sees nothing gets 0, and a log-sum-exp of -inf.
template <class Stored>
__device__ __forceinline__ void write_result(const CachedAttentionParams& p, const CachedTile& tile,
                                             int row, int column, float largest, float total,
                                             float sum) {
  static_cast<Stored*>(p.out.data)[tile.offset(p, p.out, row) + column * p.out.column] =
      Narrow<Stored>::from(total == 0.0f ? 0.0f : sum / total);
  if (column != 0) return;
  const int64 head = (tile.batch * p.key_heads + tile.key_head) * p.group + row % p.group;
  p.log_sum_exp[head * p.queries + row / p.group] =
      total == 0.0f ? -infinity() : (largest + log2f(total)) * 0.69314718f;
}

}  // namespace ridgeline

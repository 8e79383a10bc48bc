// Shared by the flash kernels: constants, the mapping of blocks to tiles, loads and stores of rows, masks.
//
// Constants from the host:
//   ELEMENT        bf16, fp16, tf32 or fp32
//   WIDTH          elements of a head
//   HEAD_DIM       WIDTH rounded up to a multiple of 16, above 128 to a multiple of 32
//   ALIGNED        rows can be loaded and stored 16 bytes at a time
//   MASK           0: every key is visible, 1: later keys are masked (causal), 2: earlier ones as well (window)
//   GROUPED        the order of blocks, see BlockTile
//   VISIBLE_AXES   only if the score function masks by conditions on operands: the axes, of batches and heads, along
//                  which these conditions differ
#pragma once

#include "flash_function.cuh"
#include "fragments.cuh"

namespace ridgeline {

using Element = ELEMENT;
constexpr int kWidth = WIDTH;
constexpr int kHeadDim = HEAD_DIM;
constexpr bool kAligned = ALIGNED;
constexpr bool kMasked = MASK > 0;
constexpr bool kIs16Bit = !kScaled<Element>;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

using Rows = Tile<Element, kHeadDim>;

// Rows of one head: planes for 32-bit elements, the elements themselves otherwise.
template <class Number>
struct HeadRows {
  Number* data;
  int row, column;  // strides

  __device__ HeadRows(const FlashTensor& tensor, int batch, int head)
      : data(static_cast<Number*>(tensor.data) + batch * tensor.batch + head * tensor.head),
        row(tensor.row),
        column(tensor.column) {}
  __device__ __forceinline__ Number* at(int r, int c = 0) const {
    return data + static_cast<long long>(r) * row + static_cast<long long>(c) * column;
  }
};
using Inputs = HeadRows<Element>;

// The type of stored results: floats where the operands are planes.
template <bool kHas16Bits>
struct ResultOf { using type = Element; };
template <>
struct ResultOf<false> { using type = float; };
using Result = ResultOf<kIs16Bit>::type;
using Outputs = HeadRows<Result>;

// The factors of planes, one per 16 rows; 1 for 16-bit elements.
struct Factors {
  const float* blocks;

  __device__ Factors(const float* all, int number_of_head, int rows)
      : blocks(kIs16Bit ? nullptr : all + static_cast<long long>(number_of_head) * ((rows + 15) / 16)) {}
  // Returns the factor of the 16 rows from `row` on, or 1 if `row` is not below `end`.
  __device__ __forceinline__ float operator()(int row, int end) const {
    return kIs16Bit ? 1 : row < end ? __ldg(blocks + row / 16) : 1;
  }
};

// The tile, batch and head of a block. The grid is tiles x heads x batches. With GROUPED all blocks lie along x: heads
// are processed in groups that fit the L2 cache together, the longest tiles of a group first, since a mask makes tiles
// differ in length.
struct BlockTile {
  int tile, batch, head;

  __device__ BlockTile(int its_tile, int its_batch, int its_head) : tile(its_tile), batch(its_batch), head(its_head) {}

  // The block's own.
  __device__ BlockTile(unsigned tiles, unsigned heads, unsigned batches, unsigned heads_at_once, bool last_tile_first) {
    // Volatile: every BlockTile reads the block index again, so that a kernel can recompute its place instead of
    // keeping it in registers, which are scarcer than instructions.
    unsigned x, y, z;
    asm volatile("mov.u32 %0, %%ctaid.x; mov.u32 %1, %%ctaid.y; mov.u32 %2, %%ctaid.z;" : "=r"(x), "=r"(y), "=r"(z));
    if (GROUPED)
      *this = BlockTile(x, tiles, heads, batches, heads_at_once, last_tile_first);
    else
      tile = x, head = y, batch = z;
  }

  // Tile `place` of all: those of `heads_at_once` heads, one tile of each in turn, then those of the next heads. The
  // host guarantees that tiles * heads_at_once fits 32 bits: 64-bit division is slow.
  __device__ BlockTile(unsigned place, unsigned tiles, unsigned heads, unsigned batches, unsigned heads_at_once,
                       bool last_tile_first) {
    const unsigned first = place / (tiles * heads_at_once) * heads_at_once;
    const unsigned size = min(heads_at_once, heads * batches - first);
    const unsigned within = place - tiles * first;
    const unsigned number = first + within % size;
    tile = int(within / size);
    if (last_tile_first) tile = int(tiles) - 1 - tile;
    batch = int(number / heads);
    head = int(number % heads);
  }
};

// Starts to copy kRows rows from `first` on into a tile; rows from `end` on and columns beyond the width become zeros.
// All kThreads threads take part, this one as number `thread`.
template <int kRows, int kThreads, class To>
__device__ __forceinline__ void load_rows(To tile, const Inputs& head, int first, int end,
                                          int thread = threadIdx.x) {
  if constexpr (kAligned || !kIs16Bit) {
    constexpr int kChunks = kPlanes<Element> * kHeadDim / kChunk;
    constexpr int kRowsAtOnce = kThreads / kChunks;
    static_assert(kRowsAtOnce > 0);
    const int row = thread / kChunks;
    const int column = thread % kChunks * kChunk;
    const Element* from = head.at(first + row) + column;
    // Both tile layouts repeat every eight rows.
    const auto to = [&](int i) { return tile.at(row + i % 8, column) + i / 8 * 8 * To::kRowBytes; };
    const bool in_width = kWidth == kHeadDim || !kIs16Bit || column < kWidth;
    if (kThreads % kChunks == 0 || row < kRowsAtOnce) {
      // A full tile needs no bounds checks; for heads wider than 128 the checked loop measured faster all the same.
      if (kHeadDim <= 128 && first + kRows <= end && (kWidth == kHeadDim || !kIs16Bit)) {
#pragma unroll
        for (int i = 0; i < kRows; i += kRowsAtOnce) {
          if (kRows % kRowsAtOnce != 0 && row + i >= kRows) break;
          copy_chunk(to(i), from);
          from += kRowsAtOnce * head.row;
        }
      } else {
#pragma unroll
        for (int i = 0; i < kRows; i += kRowsAtOnce) {
          if (kRows % kRowsAtOnce != 0 && row + i >= kRows) break;
          const bool present = in_width && first + row + i < end;
          copy_chunk_or_zeros(to(i), present ? from : head.data, present);
          from += kRowsAtOnce * head.row;
        }
      }
    }
  } else {
    for (int i = thread; i < kRows * kHeadDim; i += kThreads) {
      const int row = i / kHeadDim, column = i % kHeadDim;
      Element x = {};
      if (first + row < end && column < kWidth)
        x = *head.at(first + row, column);
      store_half(tile.at(row, column), x.bits);
    }
  }
}

// Writes the results of a warp, times factor_of(m, i): rows from `row` of the tile, whose row 0 is row `first` of the
// head, and columns from `column`. 16-bit results are staged in `tile`, shared memory that is no longer needed, until
// store_rows; 32-bit results go to global memory at once, 8 bytes per lane.
template <class To, class Number, int kM, int kTiles, class FactorOf>
__device__ __forceinline__ void put_results(const Accumulator (&results)[kM][kTiles], To tile,
                                            const HeadRows<Number>& head, int first, int end, int row, int column,
                                            FactorOf factor_of) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = row + 16 * m + lane() / 4 + 8 * i;
      const float factor = factor_of(m, i);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int c = column + 8 * n + 2 * (lane() % 4);
        const float x = results[m][n].v[2 * i] * factor, y = results[m][n].v[2 * i + 1] * factor;
        if constexpr (kIs16Bit) {
          store_pair<Element>(tile, r, c, x, y);
        } else if (first + r < end && c < kWidth) {
          Number* to = head.at(first + r, c);
          if (kAligned) {
            *reinterpret_cast<float2*>(to) = make_float2(x, y);
          } else {
            to[0] = x;
            if (c + 1 < kWidth) to[head.column] = y;
          }
        }
      }
    }
}

// Writes kRows rows from `row` of a tile that put_results filled to the head, by one warp.
template <int kRows, class From, class Number>
__device__ __forceinline__ void store_rows(From tile, const HeadRows<Number>& head, int first, int end, int row) {
  if constexpr (!kIs16Bit) {
    return;
  } else if constexpr (kAligned) {
    constexpr int kChunks = kWidth / kChunk;
    for (int i = lane(); i < kRows * kChunks; i += 32) {
      const int r = row + i / kChunks, column = i % kChunks * kChunk;
      if (first + r >= end) break;
      *reinterpret_cast<uint4*>(head.at(first + r) + column) = load_chunk(tile.at(r, column));
    }
  } else {
    for (int i = lane(); i < kRows * kWidth; i += 32) {
      const int r = row + i / kWidth, column = i % kWidth;
      if (first + r >= end) break;
      head.at(first + r, column)->bits = load_half(tile.at(r, column));
    }
  }
}

// Writes a warp's 16 rows of 16-bit results from registers to the rows of the head from `first` on. The four lanes that
// share a row exchange their parts of four tiles, so that each stores 16 contiguous bytes. Row i of the two that a lane
// holds is multiplied by factor_of(i).
template <class Number, int kTiles, class FactorOf>
__device__ __forceinline__ void store_results(const Accumulator (&results)[kTiles], const HeadRows<Number>& head,
                                              int first, int end, FactorOf factor_of, int first_column = 0) {
  static_assert(kTiles > 0 && kIs16Bit && kAligned);
  const int mine = lane() % 4;
  // Exchanges `high` for `low` of the lane that is `distance` ahead.
  const auto exchange = [&](unsigned& low, unsigned& high, int distance) {
    const bool ahead = (mine & distance) != 0;
    const unsigned other = __shfl_xor_sync(~0u, ahead ? low : high, distance);
    low = ahead ? other : low;
    high = ahead ? high : other;
  };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = first + lane() / 4 + 8 * i;
    const float factor = factor_of(i);
#pragma unroll
    for (int n = 0; n < kTiles; n += 4) {
      unsigned pairs[4] = {};
#pragma unroll
      for (int t = 0; t < 4; ++t)
        if (n + t < kTiles)
          pairs[t] = pack<Element>(results[n + t].v[2 * i] * factor, results[n + t].v[2 * i + 1] * factor);
      exchange(pairs[0], pairs[1], 1);
      exchange(pairs[2], pairs[3], 1);
      exchange(pairs[0], pairs[2], 2);
      exchange(pairs[1], pairs[3], 2);
      const int column = first_column + 8 * (n + mine);
      if (row < end && column < kWidth)
        *reinterpret_cast<uint4*>(head.at(row) + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
}

__device__ __forceinline__ int clamp(int x, int low, int high) { return max(low, min(x, high)); }

// A half-open range of queries or keys.
struct Span {
  int first, last;
  __device__ __forceinline__ bool covers(int begin, int end) const { return first <= begin && end <= last; }
};

// Query q sees the existing keys of [q + first, q + last). The host keeps all these numbers below 2^30.
struct Visible {
  int first, last, queries, keys;

  __device__ __forceinline__ Span keys_of(int query) const {
    return {MASK == 2 ? clamp(query + first, 0, keys) : 0, kMasked ? clamp(query + last, 0, keys) : keys};
  }
  __device__ __forceinline__ Span queries_of(int key) const {
    if (key >= keys) return {0, 0};
    return {kMasked ? clamp(key - last + 1, 0, queries) : 0,
            MASK == 2 ? clamp(key - first + 1, 0, queries) : queries};
  }
};

// The range of keys that the kRows queries from `first` on may see under the conditions of the score function, or of
// queries for kRows keys: the union over the groups of `ranges` (flash_seen.cu), which covers `rows` queries or keys.
// Without conditions it is [0, others).
#ifdef VISIBLE_AXES
constexpr bool kSkips = true;
constexpr unsigned kVisibleAxes = VISIBLE_AXES;
#else
constexpr bool kSkips = false;
constexpr unsigned kVisibleAxes = 0;
#endif
template <int kRows>
__device__ __forceinline__ Span visible_range(const VisibleRange* ranges, int batch, int head, int heads, int first,
                                              int rows, int others) {
  Span span = {0, others};
  if constexpr (kSkips) {
    static_assert(kRows % kVisibleGroup == 0);
    const int groups = (rows + kVisibleGroup - 1) / kVisibleGroup;
    const int number = (kVisibleAxes & along::batches ? batch * (kVisibleAxes & along::heads ? heads : 1) : 0) +
                       (kVisibleAxes & along::heads ? head : 0);
    const VisibleRange* of_head = ranges + static_cast<long long>(number) * groups;
    span = {others, 0};
#pragma unroll
    for (int i = 0; i < kRows / kVisibleGroup; ++i) {
      const VisibleRange one = of_head[min(first / kVisibleGroup + i, groups - 1)];
      span = {min(span.first, one.first), max(span.last, one.last)};
    }
    if (span.last == 0) span.first = 0;
  }
  return span;
}

// Masks scores outside the span of their row with -inf. `row` and `column` are those of the first score.
template <int kM, int kTiles, class SpanOf>
__device__ __forceinline__ void mask_scores(Accumulator (&scores)[kM][kTiles], int row, int column, SpanOf span_of) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Span span = span_of(row + 16 * m + lane() / 4 + 8 * i);
      const int mine = column + 2 * (lane() % 4);
      __builtin_assume(mine >= 0);  // so that a span that begins at 0 takes one comparison per score
      const int first = span.first - mine, last = span.last - mine;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (8 * n + j < first || 8 * n + j >= last) scores[m][n].v[2 * i + j] = -infinity();
    }
}

// Row and column, within an accumulator tile, of element `i` that a lane holds.
__device__ __forceinline__ int row_in_tile(int i) { return lane() / 4 + 8 * (i / 2); }
__device__ __forceinline__ int column_in_tile(int i) { return 2 * (lane() % 4) + i % 2; }

// Keeps weights at 1 or below despite the rounding of huge scores; 16-bit elements do not need it.
__device__ __forceinline__ float at_most(float power, float top) { return kIs16Bit ? power : fminf(power, top); }

extern __shared__ __align__(1024) char shared_memory[];
__device__ __forceinline__ unsigned shared_address() {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
}

}  // namespace ridgeline

// Shared by flash attention on the matrix units (AMX): 32 x 32 blocks of sums, and rows of bf16.
#pragma once

#include "kernels/cpu/simd/amx_words.h"
#include "kernels/cpu/simd/flash_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

inline constexpr int64_t kBlock = 32;  // rows, columns and depth of one step: 2 x 2 tiles

// Rows of an operand or of sums, `bytes` apart; `step` bytes lead to the next 32 elements of a row.
struct BlockRows {
  const void* data;
  int64_t bytes;
  int64_t step = 64;
};

// c[32 x 32] (+)= a[32 x depth] * b[depth x 32] for `steps` of kBlock along the depth. `a` has rows
// of bf16; `b` has words of two elements of the depth, 32 words to a row without gaps.
RIDGELINE_WITH_AMX HWY_INLINE void multiply_block(BlockRows a_rows, const uint32_t* b,
                                                  BlockRows c_rows, int64_t steps,
                                                  bool accumulate) {
  constexpr int64_t kBytes = kBlock * 4;
  const char* a = static_cast<const char*>(a_rows.data);
  char* c = const_cast<char*>(static_cast<const char*>(c_rows.data));
  char* c_below = c + 16 * c_rows.bytes;
  if (accumulate) {
    _tile_loadd(0, c, c_rows.bytes);
    _tile_loadd(1, c + 64, c_rows.bytes);
    _tile_loadd(2, c_below, c_rows.bytes);
    _tile_loadd(3, c_below + 64, c_rows.bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step, a += a_rows.step, b += 16 * kBlock) {
    _tile_loadd(6, b, kBytes);
    _tile_loadd(4, a, a_rows.bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + 16 * a_rows.bytes, a_rows.bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(7, b + 16, kBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_rows.bytes);
  _tile_stored(1, c + 64, c_rows.bytes);
  _tile_stored(2, c_below, c_rows.bytes);
  _tile_stored(3, c_below + 64, c_rows.bytes);
}

struct HalfRows {
  const uint16_t* data;
  int64_t stride;
  BlockRows from(int64_t row) const { return {data + row * stride, stride * 2}; }
};

// The rows in place, or a copy with zeros up to a multiple of kBlock.
inline HalfRows whole_blocks(const FlashRows& from, FlashRange range, int64_t head_dim,
                             uint16_t* copy) {
  const uint16_t* data = static_cast<const uint16_t*>(from.data) + range.begin * from.row_stride;
  const int64_t count = range.end - range.begin;
  if (count % kBlock == 0) return {data, from.row_stride};
  for (int64_t row = 0; row < round_up(count, kBlock); ++row)
    for (int64_t i = 0; i < head_dim; ++i)
      copy[row * head_dim + i] = row < count ? data[row * from.row_stride + i] : uint16_t{0};
  return {copy, head_dim};
}

// The 16 x 32 block of bf16 rows at (row, column); `rows` rows remain.
inline WordBlock block_at(const FlashRows& from, int64_t row, int64_t rows, int64_t column) {
  return {.from = static_cast<const uint16_t*>(from.data) + row * from.row_stride + column,
          .line_step = from.row_stride,
          .depth_step = 1,
          .lines = rows < 0 ? 0 : rows,
          .depth = 32};
}

// Packs pairs along head_dim, with rows adjacent: (row, 2 i) goes to (i, row) of the row's panel.
inline void pack_along_head(const FlashRows& from, FlashRange rows, int64_t head_dim, uint32_t* to,
                            bool negate = false) {
  const Words sign = hn::Set(WideBits(), negate ? 0x80008000u : 0u);
  const int64_t count = rows.end - rows.begin;
  for (int64_t row = 0; row < round_up(count, kBlock); row += 16)
    for (int64_t column = 0; column < head_dim; column += 32) {
      Words words[16];
      load_words<WordOrder::lines_inside>(block_at(from, rows.begin + row, count - row, column),
                                          words);
      uint32_t* panel = to + row / kBlock * (head_dim / 2 * kBlock) + row % kBlock;
      for (int i = 0; i < 16; ++i)
        hn::StoreU(hn::Xor(words[i], sign), WideBits(), panel + (column / 2 + i) * kBlock);
    }
}

// The same block with rows and columns exchanged.
inline WordBlock columns_at(const FlashRows& from, int64_t row, int64_t rows, int64_t column) {
  return {.from = static_cast<const uint16_t*>(from.data) + row * from.row_stride + column,
          .line_step = 1,
          .depth_step = from.row_stride,
          .lines = 16,
          .depth = rows < 0 ? 0 : rows};
}

// Packs the transpose: (row, column) goes to (column, row) of the row's panel.
inline void pack_transposed(const FlashRows& from, FlashRange rows, int64_t head_dim,
                            uint16_t* to) {
  const int64_t count = rows.end - rows.begin;
  for (int64_t row = 0; row < count; row += kBlock)
    for (int64_t column = 0; column < head_dim; column += 16) {
      Words words[16];
      load_words<WordOrder::pairs_inside>(columns_at(from, rows.begin + row, count - row, column),
                                          words);
      for (int i = 0; i < 16; ++i)
        _mm512_storeu_si512(to + row * head_dim + (column + i) * kBlock, words[i].raw);
    }
}

inline void fill(float* to, int64_t count, float value) {
  for (int64_t i = 0; i < count; i += kLanes) hn::StoreU(hn::Set(Wide(), value), Wide(), to + i);
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

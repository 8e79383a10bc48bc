// Shared by flash attention in blocks of bf16 (bf16_units.h): rows of bf16, and their packing.
#pragma once

#include "kernels/cpu/simd/bf16_words.h"
#include "kernels/cpu/simd/flash_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

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

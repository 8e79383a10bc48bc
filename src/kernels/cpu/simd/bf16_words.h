// Packing for products of bf16 blocks (bf16_units.h): blocks of 16 lines by 32 bf16, as 16 x 16
// words of two elements that are adjacent along the depth.
#pragma once

#include "kernels/cpu/simd/bf16_units.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

using Words = hn::Vec<WideBits>;

// Transposes in place: row i of words becomes column i.
HWY_INLINE void transpose_words(Words (&rows)[16]) {
  const WideBits words;
  const hn::Repartition<uint64_t, WideBits> pairs;
  Words mixed[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(words, rows[i], rows[i + 1]));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(words, rows[i], rows[i + 1]));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(words, rows[i + 2], rows[i + 3]));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(words, rows[i + 2], rows[i + 3]));
    mixed[i] = hn::BitCast(words, hn::InterleaveLower(pairs, low01, low23));
    mixed[i + 1] = hn::BitCast(words, hn::InterleaveUpper(pairs, low01, low23));
    mixed[i + 2] = hn::BitCast(words, hn::InterleaveLower(pairs, high01, high23));
    mixed[i + 3] = hn::BitCast(words, hn::InterleaveUpper(pairs, high01, high23));
  }
  // mixed[4 * r + c] holds columns c, c + 4, c + 8, c + 12 of rows 4r .. 4r + 3, one block each.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i a = _mm512_shuffle_i32x4(mixed[c].raw, mixed[4 + c].raw, 0x44);
    const __m512i b = _mm512_shuffle_i32x4(mixed[8 + c].raw, mixed[12 + c].raw, 0x44);
    const __m512i d = _mm512_shuffle_i32x4(mixed[c].raw, mixed[4 + c].raw, 0xee);
    const __m512i e = _mm512_shuffle_i32x4(mixed[8 + c].raw, mixed[12 + c].raw, 0xee);
    rows[c].raw = _mm512_shuffle_i32x4(a, b, 0x88);
    rows[c + 4].raw = _mm512_shuffle_i32x4(a, b, 0xdd);
    rows[c + 8].raw = _mm512_shuffle_i32x4(d, e, 0x88);
    rows[c + 12].raw = _mm512_shuffle_i32x4(d, e, 0xdd);
  }
}

// Rounds two rows of 16 floats to bf16 and interleaves them: words of an even and an odd element.
// In assembly, because functions of another instruction set are not inlined into avx512 loops.
HWY_INLINE __m512i rounded_pairs(__m512 even, __m512 odd) {
  alignas(64) static constexpr uint16_t kInterleave[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  __m512i both;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(both) : "v"(odd), "v"(even));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInterleave), both);
}

// A block of a matrix; lines and depth beyond its end are read as zeros.
struct WordBlock {
  const uint16_t* from;
  int64_t line_step, depth_step;
  int64_t lines, depth;
};

// words[line]: the pairs of a line.
HWY_INLINE void load_long_lines(const WordBlock& block, Words (&words)[16]) {
  const __mmask32 inside =
      block.depth >= 32 ? ~__mmask32{0} : (__mmask32{1} << block.depth) - __mmask32{1};
#pragma GCC unroll 16
  for (int line = 0; line < 16; ++line)
    words[line].raw = line < block.lines
                          ? _mm512_maskz_loadu_epi16(inside, block.from + line * block.line_step)
                          : _mm512_setzero_si512();
}

// words[pair]: that pair of all lines.
HWY_INLINE void load_wide_lines(const WordBlock& block, Words (&words)[16]) {
  const auto inside = static_cast<__mmask16>(block.lines >= 16 ? 0xffff : (1 << block.lines) - 1);
  const auto at = [&](int64_t k) {
    return k < block.depth ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
                                 inside, block.from + k * block.depth_step))
                           : _mm512_setzero_si512();
  };
#pragma GCC unroll 16
  for (int pair = 0; pair < 16; ++pair)
    words[pair].raw = _mm512_or_si512(at(2 * pair), _mm512_slli_epi32(at(2 * pair + 1), 16));
}

enum class WordOrder { pairs_inside, lines_inside };

// words[line] with its pairs, or words[pair] of all lines; at most 16 lines and 32 of the depth.
template <WordOrder kOrder>
HWY_INLINE void load_words(const WordBlock& block, Words (&words)[16]) {
  if (block.depth_step == 1) {
    load_long_lines(block, words);
    if (kOrder == WordOrder::lines_inside) transpose_words(words);
  } else if (block.line_step == 1) {
    load_wide_lines(block, words);
    if (kOrder == WordOrder::pairs_inside) transpose_words(words);
  } else {
    uint16_t copy[16 * 32] = {};
    for (int64_t line = 0; line < block.lines && line < 16; ++line)
      for (int64_t k = 0; k < block.depth && k < 32; ++k)
        copy[line * 32 + k] = block.from[line * block.line_step + k * block.depth_step];
    load_long_lines({copy, 32, 1, 16, 32}, words);
    if (kOrder == WordOrder::lines_inside) transpose_words(words);
  }
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

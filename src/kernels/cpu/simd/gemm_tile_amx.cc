// A block of a matrix product in bf16, 32 x 32 sums at a time, and the packing of its operands: on
// the matrix units (AMX), where the sums take four of the eight tiles, or by vector dot products of
// pairs (AVX512-BF16).
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd/vectors.h"

#if HWY_TARGET <= HWY_AVX3
#include <cstring>

#include "kernels/cpu/simd/amx_words.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int64_t kTile = 16 * 32;    // elements
constexpr int64_t kStep = 2 * kTile;  // of a panel
constexpr int64_t kPanelLines = 32;
constexpr int64_t kPairSums = kPanelLines * kPanelLines;

template <WordOrder kOrder>
void pack_panels(const TileLines& lines) {
  uint16_t* to = lines.to;
  for (int64_t line = 0; line < lines.lines; line += kPanelLines)
    for (int64_t k = 0; k == 0 || k < lines.depth; k += 32)  // an empty sum is one step of zeros
      for (int64_t half = 0; half < kPanelLines; half += 16, to += kTile) {
        Words words[16];
        const int64_t first = line + half;
        load_words<kOrder>({.from = lines.from + first * lines.line_step + k * lines.depth_step,
                            .line_step = lines.line_step,
                            .depth_step = lines.depth_step,
                            .lines = lines.lines - first < 0 ? 0 : lines.lines - first,
                            .depth = lines.depth - k},
                           words);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * 32, words[i].raw);
      }
}

RIDGELINE_WITH_AMX void multiply_pair(const uint16_t* a, const uint16_t* b, int64_t steps,
                                      float* sums, bool accumulate) {
  constexpr int64_t kBytes = kPanelLines * 4;
  if (accumulate) {
    _tile_loadd(0, sums, kBytes);
    _tile_loadd(1, sums + 16, kBytes);
    _tile_loadd(2, sums + 16 * kPanelLines, kBytes);
    _tile_loadd(3, sums + 16 * kPanelLines + 16, kBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < steps; ++step, a += kStep, b += kStep) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, a + kTile, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_loadd(7, b + kTile, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kBytes);
  _tile_stored(1, sums + 16, kBytes);
  _tile_stored(2, sums + 16 * kPanelLines, kBytes);
  _tile_stored(3, sums + 16 * kPanelLines + 16, kBytes);
}

// By vdpbf16ps: a pair of a row, broadcast to a vector, times the pairs of 32 columns. Sixteen
// chains of sums hide the latency of one.
template <int64_t kLines>
RIDGELINE_WITH_DOTS void multiply_lines(const uint16_t* a, const uint16_t* b, int64_t steps,
                                        float* sums, bool accumulate) {
  __m512 low[kLines], high[kLines];
#pragma GCC unroll 8
  for (int64_t line = 0; line < kLines; ++line) {
    low[line] = accumulate ? _mm512_load_ps(sums + line * kPanelLines) : _mm512_setzero_ps();
    high[line] = accumulate ? _mm512_load_ps(sums + line * kPanelLines + 16) : _mm512_setzero_ps();
  }
  for (int64_t step = 0; step < steps; ++step, a += kStep, b += kStep)
    for (int64_t pair = 0; pair < 16; ++pair) {
      const auto left = reinterpret_cast<__m512bh>(_mm512_load_si512(b + pair * 32));
      const auto right = reinterpret_cast<__m512bh>(_mm512_load_si512(b + kTile + pair * 32));
#pragma GCC unroll 8
      for (int64_t line = 0; line < kLines; ++line) {
        int32_t both = 0;
        std::memcpy(&both, a + line * 32 + pair * 2, sizeof both);
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
        low[line] = _mm512_dpbf16_ps(low[line], x, left);
        high[line] = _mm512_dpbf16_ps(high[line], x, right);
      }
    }
#pragma GCC unroll 8
  for (int64_t line = 0; line < kLines; ++line) {
    _mm512_store_ps(sums + line * kPanelLines, low[line]);
    _mm512_store_ps(sums + line * kPanelLines + 16, high[line]);
  }
}

// Only the lines of a panel that exist.
RIDGELINE_WITH_DOTS void multiply_pair_by_dots(const uint16_t* a, const uint16_t* b, int64_t steps,
                                               float* sums, bool accumulate, int64_t lines) {
  constexpr int64_t kAtOnce = 8;
  for (int64_t line = 0; line < lines; line += kAtOnce)
    multiply_lines<kAtOnce>(a + line / 16 * kTile + line % 16 * 32, b, steps,
                            sums + line * kPanelLines, accumulate);
}

// Writes the sums of one panel of rows, row by row along all columns: stores are contiguous.
RIDGELINE_WITH_DOTS void round_sums(const float* sums, const TileBlock& block, int64_t row) {
  const int64_t left = block.rows - row, rows = left < kPanelLines ? left : kPanelLines;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t column = 0; column < block.columns; column += kPanelLines) {
      const int64_t width = block.columns - column;
      const auto inside = static_cast<__mmask32>(width >= kPanelLines ? ~0u : (1u << width) - 1u);
      const float* from = sums + column * kPanelLines + r * kPanelLines;
      const __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + 16);
      const int64_t to = (row + r) * block.c_step + column;
      if (block.narrow) {
        const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
        _mm512_mask_storeu_epi16(static_cast<uint16_t*>(block.c) + to, inside, both);
      } else {
        float* c = static_cast<float*>(block.c) + to;
        _mm512_mask_storeu_ps(c, static_cast<__mmask16>(inside), low);
        _mm512_mask_storeu_ps(c + 16, static_cast<__mmask16>(inside >> 16), high);
      }
    }
}

RIDGELINE_WITH_AMX void multiply_panels(const TileBlock& block) {
  const TileConfig config;
  memory_is_read(&config);
  _tile_loadconfig(&config);
  const bool at_once = block.begins && block.ends;
  for (int64_t i = 0; i < block.a_panels; ++i) {
    float* sums = block.sums + (at_once ? 0 : i * block.b_panels * kPairSums);
    memory_is_read(sums);
    for (int64_t j = 0; j < block.b_panels; ++j)
      multiply_pair(block.a + i * block.steps * kStep, block.b + j * block.steps * kStep,
                    block.steps, sums + j * kPairSums, !block.begins);
    memory_is_read(sums);
    if (block.ends) round_sums(sums, block, i * kPanelLines);
  }
  _tile_release();
}

RIDGELINE_WITH_DOTS void multiply_panels_by_dots(const TileBlock& block) {
  const bool at_once = block.begins && block.ends;
  for (int64_t i = 0; i < block.a_panels; ++i) {
    const int64_t left = block.rows - i * kPanelLines;
    float* sums = block.sums + (at_once ? 0 : i * block.b_panels * kPairSums);
    for (int64_t j = 0; j < block.b_panels; ++j)
      multiply_pair_by_dots(block.a + i * block.steps * kStep, block.b + j * block.steps * kStep,
                            block.steps, sums + j * kPairSums, !block.begins,
                            left < kPanelLines ? left : kPanelLines);
    if (block.ends) round_sums(sums, block, i * kPanelLines);
  }
}

}  // namespace

const MatrixKernels kDotKernels = {.pack_rows = pack_panels<WordOrder::pairs_inside>,
                                   .pack_columns = pack_panels<WordOrder::lines_inside>,
                                   .multiply = multiply_panels_by_dots};

const MatrixKernels kMatrixKernels = {.pack_rows = pack_panels<WordOrder::pairs_inside>,
                                      .pack_columns = pack_panels<WordOrder::lines_inside>,
                                      .multiply = multiply_panels};

}  // namespace ridgeline::RIDGELINE_ISA

#endif

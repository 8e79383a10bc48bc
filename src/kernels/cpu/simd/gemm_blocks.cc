// A block of a matrix product in bf16, 32 x 32 sums at a time (bf16_units.h), and the packing of
// its operands.
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd/vectors.h"

#if HWY_TARGET <= HWY_AVX3
#include "kernels/cpu/simd/bf16_words.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int64_t kTile = 16 * 32;    // elements
constexpr int64_t kStep = 2 * kTile;  // of a panel
constexpr int64_t kPairSums = kBlock * kBlock;

template <WordOrder kOrder>
void pack_panels(const TileLines& lines) {
  uint16_t* to = lines.to;
  for (int64_t line = 0; line < lines.lines; line += kBlock)
    for (int64_t k = 0; k == 0 || k < lines.depth; k += 32)  // an empty sum is one step of zeros
      for (int64_t half = 0; half < kBlock; half += 16, to += kTile) {
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

// Writes the sums of one panel of rows, row by row along all columns: stores are contiguous.
RIDGELINE_WITH_DOTS void round_sums(const float* sums, const TileBlock& block, int64_t row) {
  const int64_t left = block.rows - row, rows = left < kBlock ? left : kBlock;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t column = 0; column < block.columns; column += kBlock) {
      const int64_t width = block.columns - column;
      const auto inside = static_cast<__mmask32>(width >= kBlock ? ~0u : (1u << width) - 1u);
      const float* from = sums + column * kBlock + r * kBlock;
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

template <class Unit>
RIDGELINE_WITH_UNITS void multiply_panels(const TileBlock& block) {
  Unit::begin();
  const bool at_once = block.begins && block.ends;
  for (int64_t i = 0; i < block.a_panels; ++i) {
    const int64_t rows = block.rows - i * kBlock;
    float* sums = block.sums + (at_once ? 0 : i * block.b_panels * kPairSums);
    for (int64_t j = 0; j < block.b_panels; ++j)
      Unit::multiply({.a = {block.a.data + i * block.a.panel_step, block.a.line_step * 2,
                            block.a.depth_step * 2},
                      .b = {block.b + j * block.steps * kStep, 64, kTile * 2},
                      .c = {sums + j * kPairSums, kBlock * 4},
                      .steps = block.steps,
                      .accumulate = !block.begins,
                      .rows = rows < kBlock ? rows : kBlock});
    if (block.ends) round_sums(sums, block, i * kBlock);
  }
  Unit::end();
}

template <class Unit>
constexpr MatrixKernels kKernelsOf = {.pack_rows = pack_panels<WordOrder::pairs_inside>,
                                      .pack_columns = pack_panels<WordOrder::lines_inside>,
                                      .multiply = multiply_panels<Unit>};

}  // namespace

const MatrixKernels kDotKernels = kKernelsOf<DotUnits>;
const MatrixKernels kMatrixKernels = kKernelsOf<MatrixUnits>;

}  // namespace ridgeline::RIDGELINE_ISA

#endif

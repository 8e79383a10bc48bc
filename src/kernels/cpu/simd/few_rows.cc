// A few rows times many stored lines, such as one token times weights: bound by reading the lines.
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/stored_lines.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int kTileRows = 4;
// Wide vectors of one row are fastest on one line after another, as in memory; several rows, and
// narrow vectors, need more sums at once to hide the latency of additions.
template <int kRows>
inline constexpr int kTileLines = kRows == 1 && kLanes >= 16 ? 1 : 4;
constexpr int64_t kLineBlock = 64;     // lines whose sums are rounded together
constexpr int64_t kBytesAhead = 4096;  // more than memory delivers within its latency

template <class Format, int kRows>
void multiply_lines(PaddedRows rows, StoredLines<Format> lines, int64_t count, int64_t width,
                    float* sums) {
  constexpr int kLines = kTileLines<kRows>;
  int64_t l = 0;
  for (; l + kLines <= count; l += kLines, lines.data += kLines * lines.step)
    multiply_tile<Format, kRows, kLines>(rows, lines, width, sums + l, kLineBlock);
  for (; l < count; ++l, lines.data += lines.step)
    multiply_tile<Format, kRows, 1>(rows, lines, width, sums + l, kLineBlock);
}

template <class Format>
void multiply_as(const FewRows& product) {
  using Stored = typename Format::Stored;
  constexpr int64_t kSize = sizeof(Stored);
  constexpr decltype(&multiply_lines<Format, 1>) kBlocks[kTileRows] = {
      multiply_lines<Format, 1>, multiply_lines<Format, 2>, multiply_lines<Format, 3>,
      multiply_lines<Format, 4>};
  float sums[kTileRows * kLineBlock];
  for (int64_t begin = 0; begin < product.lines; begin += kLineBlock) {
    const int64_t left = product.lines - begin, count = left < kLineBlock ? left : kLineBlock;
    StoredLines<Format> lines{
        .data = static_cast<const Stored*>(product.weights) + begin * product.line_step,
        .step = product.line_step,
        .ahead = kBytesAhead / kSize};
    for (int64_t row = 0; row < product.rows; row += kTileRows) {
      const int64_t below = product.rows - row, tile = below < kTileRows ? below : kTileRows;
      kBlocks[tile - 1]({product.x + row * product.pitch, product.pitch}, lines, count,
                        product.width, sums);
      for (int64_t r = 0; r < tile; ++r)
        store(product.dtype, sums + r * kLineBlock,
              static_cast<char*>(product.out) + ((row + r) * product.out_step + begin) * kSize,
              count);
      lines.ahead = 0;  // later tiles of rows find these lines in a cache
    }
  }
}

}  // namespace

void multiply_few_rows(const FewRows& product) {
  switch (product.dtype) {
    case DType::bf16:
      return multiply_as<StoredBf16>(product);
    case DType::f16:
      return multiply_as<StoredF16>(product);
    default:
      return multiply_as<StoredFloat>(product);
  }
}

}  // namespace ridgeline::RIDGELINE_ISA

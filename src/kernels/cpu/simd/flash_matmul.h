// Register-blocked products of small fp32 matrices in cache: the arithmetic of flash attention.
#pragma once

#include "hwy/cache_control.h"
#include "kernels/cpu/simd/vec_math.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

// 6 rows x 4 vectors of sums leave room for the operands in 32 registers, 6 x 2 in 16.
inline constexpr int kBlockRows = 6;
inline constexpr int kBlockVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
inline constexpr int64_t kPanel = kBlockVectors * kLanes;

// The right operand in panels of kPanel columns; those of a row-major matrix are kPanel apart.
struct Panels {
  const float* data;
  int64_t row_stride;
  int64_t panel_stride = kPanel;
};

// How the left operand is stored: its element (row, k) at row * stride + k, or at k * stride + row.
enum class Left { plain, transposed };

// Rows that are needed soon, as many as a product has (possibly those of its own result):
// prefetched during the product, since they come from slow caches.
struct RowsAhead {
  static constexpr bool kAny = true;
  const float* data;
  int64_t stride, width;
  void skip(int rows) { data += rows * stride; }
};
struct NothingAhead {
  static constexpr bool kAny = false;
  void skip(int) {}
};

// An integer as a type, so that a lambda can pass it on as a template argument.
template <int kValue>
struct Count {
  static constexpr int value = kValue;
};

template <Left kLeft, int kRows, int kVectors, class Ahead>
HWY_INLINE void multiply_block(const float* HWY_RESTRICT a, int64_t a_stride,
                               const float* HWY_RESTRICT b, int64_t b_stride, float* HWY_RESTRICT c,
                               int64_t c_stride, int64_t depth, bool accumulate,
                               const Ahead& ahead) {
  const Wide wide;
  Floats sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[row][v] = hn::Zero(wide);
  const auto add_products = [&](int64_t steps) {
    for (int64_t k = 0; k < steps; ++k) {
      Floats right[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(wide, b + v * kLanes);
#pragma GCC unroll 16
      for (int row = 0; row < kRows; ++row) {
        const Floats left = hn::Set(wide, kLeft == Left::plain ? a[row * a_stride] : a[row]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[row][v] = hn::MulAdd(left, right[v], sums[row][v]);
      }
      a += kLeft == Left::plain ? 1 : a_stride;
      b += b_stride;
    }
  };
  int64_t done = 0;
  if constexpr (Ahead::kAny) {  // a row at a time: all at once would delay the operands
    const int64_t steps = depth / kRows;
#pragma GCC unroll 1
    for (int row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < ahead.width; i += kLanes)
        hwy::Prefetch(ahead.data + row * ahead.stride + i);
      add_products(steps);
    }
    done = kRows * steps;
  }
  add_products(depth - done);
  // Long sums are added up tile by tile: errors grow with the number of tiles, not of terms.
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + row * c_stride + v * kLanes;
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(wide, to), sums[row][v]) : sums[row][v], wide, to);
    }
}

template <Left kLeft, int kVectors, class Ahead>
void multiply_panel(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
                    int64_t c_stride, int64_t rows, int64_t depth, bool accumulate, Ahead ahead) {
  const int64_t a_step = kLeft == Left::plain ? a_stride : 1;
  const auto block = [&](auto block_rows) {
    constexpr int kRows = decltype(block_rows)::value;
    multiply_block<kLeft, kRows, kVectors>(a, a_stride, b, b_stride, c, c_stride, depth, accumulate,
                                           ahead);
    ahead.skip(kRows);
    a += kRows * a_step;
    c += kRows * c_stride;
    rows -= kRows;
  };
  // With one vector per row, six rows are too few sums to hide the latency of additions.
  if constexpr (kVectors == 1)
    while (rows >= 2 * kBlockRows) block(Count<2 * kBlockRows>());
  while (rows >= kBlockRows) block(Count<kBlockRows>());
  switch (rows) {
    case 5:
      return block(Count<5>());
    case 4:
      return block(Count<4>());
    case 3:
      return block(Count<3>());
    case 2:
      return block(Count<2>());
    case 1:
      return block(Count<1>());
    default:
      return;
  }
}

// c[rows x columns] (+)= a[rows x depth] * b[depth x columns]; columns is a multiple of kLanes.
template <Left kLeft, class Ahead = NothingAhead>
void multiply(const float* a, int64_t a_stride, Panels b, float* c, int64_t c_stride, int64_t rows,
              int64_t columns, int64_t depth, bool accumulate, const Ahead& ahead = {}) {
  for (int64_t column = 0; column < columns; column += kPanel) {
    const float* panel = b.data + column / kPanel * b.panel_stride;
    const auto run = [&](auto vectors) {
      multiply_panel<kLeft, decltype(vectors)::value>(a, a_stride, panel, b.row_stride, c + column,
                                                      c_stride, rows, depth, accumulate, ahead);
    };
    switch ((columns - column) / kLanes) {
      case 1:
        run(Count<1>());
        break;
      case 2:
        run(Count<2>());
        break;
      case 3:
        run(Count < kBlockVectors < 3 ? 2 : 3 > ());
        break;
      default:
        run(Count<kBlockVectors>());
    }
  }
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

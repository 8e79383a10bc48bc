// One register tile of a matrix product, and the dot product of two rows.
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd/vectors.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int kVectors = 2;  // side by side in a tile
// Sums, two vectors of b and one of a: 31 of the 32 registers of AVX-512, 15 of 16 elsewhere.
constexpr int kRows = kLanes == 16 ? 14 : 6;
constexpr int64_t kColumns = kVectors * kLanes;

void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, int64_t depth,
          float* HWY_RESTRICT c, int64_t c_stride, bool accumulate) {
  const Wide wide;
  Floats sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[row][v] = hn::Zero(wide);
  for (int64_t k = 0; k < depth; ++k, a += kRows, b += kColumns) {
    const Floats left = hn::LoadU(wide, b);
    const Floats right = hn::LoadU(wide, b + kLanes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const Floats factor = hn::Set(wide, a[row]);
      sums[row][0] = hn::MulAdd(factor, left, sums[row][0]);
      sums[row][1] = hn::MulAdd(factor, right, sums[row][1]);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + row * c_stride + v * kLanes;
      hn::StoreU(accumulate ? hn::Add(hn::LoadU(wide, to), sums[row][v]) : sums[row][v], wide, to);
    }
}

float dot(const float* x, const float* y, int64_t count) {
  const Wide wide;
  Floats sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      sums[v] = hn::MulAdd(hn::LoadU(wide, x + i + v * kLanes), hn::LoadU(wide, y + i + v * kLanes),
                           sums[v]);
  for (; i < count; i += kLanes) {
    const int64_t left = count - i < kLanes ? count - i : kLanes;
    sums[0] = hn::MulAdd(load_first(x + i, left), load_first(y + i, left), sums[0]);
  }
  return hn::GetLane(
      hn::SumOfLanes(wide, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

}  // namespace

const GemmKernels kGemmKernels = {
    .tile_rows = kRows, .tile_columns = kColumns, .tile = tile, .dot = dot};

}  // namespace ridgeline::RIDGELINE_ISA

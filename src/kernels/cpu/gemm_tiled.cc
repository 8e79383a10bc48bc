// Matrix products in blocks that stay in the L1 cache, in plain C++.
#include <algorithm>
#include <array>

#include "kernels/cpu/gemm_elements.h"
#include "kernels/cpu/gemm_ladder.h"

namespace ridgeline {
namespace {

constexpr int64_t kTile = 64;     // three tiles of fp32 are 48 KiB
constexpr int64_t kSlice = 1024;  // elements of the vector that rows share
constexpr int64_t kRows = 8;

}  // namespace

void gemm_tiled(const GemmOperands& operands, const CpuContext& context) {
  const int64_t m = operands.a.shape[0], n = operands.b.shape[1], depth = operands.b.shape[0];
  const int64_t across = (n + kTile - 1) / kTile, down = (m + kTile - 1) / kTile;
  with_element(operands.out.dtype, [&](auto element) {
    using Element = decltype(element);
    using Stored = typename Element::Stored;
    const Stored *a = operands.a.as<Stored>(), *b = operands.b.as<Stored>();
    Stored* out = operands.out.as<Stored>();
    context.pool.for_each_nearby(down * across, [=](int64_t item, int) {
      const int64_t i0 = item / across * kTile, j0 = item % across * kTile;
      const int64_t rows = std::min(kTile, m - i0), columns = std::min(kTile, n - j0);
      std::array<std::array<float, kTile>, kTile> sums{}, tile{};
      for (int64_t k0 = 0; k0 < depth; k0 += kTile) {
        const int64_t steps = std::min(kTile, depth - k0);
        for (int64_t k = 0; k < steps; ++k)
          for (int64_t j = 0; j < columns; ++j)
            tile[k][j] = Element::widen(b[(k0 + k) * n + j0 + j]);
        // Also columns beyond the edge: a loop of constant length vectorises.
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t k = 0; k < steps; ++k) {
            const float factor = Element::widen(a[(i0 + i) * depth + k0 + k]);
            for (int64_t j = 0; j < kTile; ++j) sums[i][j] += factor * tile[k][j];
          }
      }
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          out[(i0 + i) * n + j0 + j] = Element::narrow(sums[i][j]);
    });
  });
}

void gemv_tiled(const GemmOperands& operands, const CpuContext& context) {
  const int64_t m = operands.a.shape[0], depth = operands.b.shape[0];
  with_element(operands.out.dtype, [&](auto element) {
    using Element = decltype(element);
    using Stored = typename Element::Stored;
    const Stored *a = operands.a.as<Stored>(), *x = operands.b.as<Stored>();
    Stored* out = operands.out.as<Stored>();
    context.pool.for_range((m + kRows - 1) / kRows, 8, [=](int64_t begin, int64_t end) {
      std::array<float, kSlice> slice{};
      for (int64_t i0 = begin * kRows; i0 < std::min(m, end * kRows); i0 += kRows) {
        const int64_t rows = std::min(kRows, m - i0);
        std::array<float, kRows> sums{};
        for (int64_t k0 = 0; k0 < depth; k0 += kSlice) {
          const int64_t steps = std::min(kSlice, depth - k0);
          for (int64_t k = 0; k < steps; ++k) slice[k] = Element::widen(x[k0 + k]);
          for (int64_t i = 0; i < rows; ++i) {
            // Four sums, since one would wait for the latency of its additions.
            std::array<float, 4> parts{};
            const Stored* row = a + (i0 + i) * depth + k0;
            int64_t k = 0;
            for (; k + 4 <= steps; k += 4)
              for (int64_t part = 0; part < 4; ++part)
                parts[part] += Element::widen(row[k + part]) * slice[k + part];
            for (; k < steps; ++k) parts[0] += Element::widen(row[k]) * slice[k];
            sums[i] += parts[0] + parts[1] + parts[2] + parts[3];
          }
        }
        for (int64_t i = 0; i < rows; ++i) out[i0 + i] = Element::narrow(sums[i]);
      }
    });
  });
}

}  // namespace ridgeline

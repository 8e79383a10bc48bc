#include "kernels/cpu/gemm_few_rows.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/chunk.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostFewRows = 15;  // from 16 rows on packing pays off
constexpr int64_t kRowPitch = 16;     // floats of the widest vector
constexpr int64_t kBytesWorthSharing = int64_t{1} << 15;

}  // namespace

bool has_few_rows(const Gemm& product) {
  const DType dtype = product.c.dtype;
  if (dtype == DType::tf32 || product.b.dtype != dtype || product.a.dtype != dtype) return false;
  return product.m <= kMostFewRows && product.b.row_step == 1;
}

void gemm_few_rows(const Gemm& product, Isa isa, ThreadPool* pool) {
  const SimdKernels& simd = simd_kernels(isa);
  const GemmOperand &a = product.a, &b = product.b;
  const int64_t pitch = (product.k + kRowPitch - 1) / kRowPitch * kRowPitch;
  static thread_local std::vector<float> widened;
  widened.resize(static_cast<size_t>(product.m * pitch));
  float* const x = widened.data();
  for (int64_t row = 0; row < product.m; ++row) {
    widen_row(simd, a.dtype, a.data, row * a.row_step, a.column_step, product.k, x + row * pitch);
    std::fill(x + row * pitch + product.k, x + (row + 1) * pitch, 0.0f);
  }
  const int64_t size = info(b.dtype).size;
  const auto multiply = [&](int64_t begin, int64_t end) {
    simd.multiply_few_rows(
        {.dtype = b.dtype,
         .x = x,
         .pitch = pitch,
         .rows = product.m,
         .weights = static_cast<const char*>(b.data) + begin * b.column_step * size,
         .line_step = b.column_step,
         .lines = end - begin,
         .width = product.k,
         .out = static_cast<char*>(product.c.data) + begin * size,
         .out_step = product.c.row_step});
  };
  if (pool == nullptr) return multiply(0, product.n);
  const int64_t line_bytes = std::max<int64_t>(1, product.k * size);
  pool->for_range(product.n, std::max<int64_t>(1, kBytesWorthSharing / line_bytes), multiply);
}

}  // namespace ridgeline

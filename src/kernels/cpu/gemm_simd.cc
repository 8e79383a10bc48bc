// The GEMM lab's products by vector code: the gemm() of the models, and dot products of rows.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/gemm_ladder.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd_kernels.h"

namespace ridgeline {

void run_gemm(GemmRung rung, const GemmOperands& operands, const CpuContext& context) {
  const bool vector = operands.b.shape[1] == 1;
  switch (rung) {
    case GemmRung::naive:
      return vector ? gemv_naive(operands, context) : gemm_naive(operands, context);
    case GemmRung::tiled:
      return vector ? gemv_tiled(operands, context) : gemm_tiled(operands, context);
    case GemmRung::simd:
      return vector ? gemv_simd(operands, context) : gemm_simd(operands, context);
    case GemmRung::library:
      return gemm_library(operands, context);
  }
}

void gemm_simd(const GemmOperands& operands, const CpuContext& context) {
  const auto& [a, b, out] = operands;
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  gemm({.m = m,
        .n = n,
        .k = k,
        .a = {.data = a.data, .dtype = a.dtype, .row_step = k},
        .b = {.data = b.data, .dtype = b.dtype, .row_step = n},
        .c = {.data = out.data, .dtype = out.dtype, .row_step = n}},
       context);
}

void gemv_simd(const GemmOperands& operands, const CpuContext& context) {
  const auto& a = operands.a;  // Clang 14 cannot capture structured bindings
  const auto &b = operands.b, &out = operands.out;
  if (out.dtype == DType::tf32) throw no_tf32();
  const SimdKernels& simd = simd_kernels(context.isa);
  const GemmKernels& gemm = gemm_kernels(context.isa);
  const int64_t depth = a.shape[1];
  const int size = info(out.dtype).size;
  std::vector<float> widened;
  const float* x = b.as<float>();
  if (b.dtype != DType::f32) {
    widened.resize(static_cast<size_t>(depth));
    simd.load(b.dtype, b.data, widened.data(), depth);
    x = widened.data();
  }
  context.pool.for_range(out.shape[0], 16, [&](int64_t begin, int64_t end) {
    std::array<float, 2048> slice;
    for (int64_t i = begin; i < end; ++i) {
      const char* row = a.as<char>() + i * depth * size;
      float sum = 0;
      if (a.dtype == DType::f32) {
        sum = gemm.dot(reinterpret_cast<const float*>(row), x, depth);
      } else {
        for (int64_t k = 0; k < depth; k += static_cast<int64_t>(slice.size())) {
          const int64_t count = std::min<int64_t>(slice.size(), depth - k);
          simd.load(a.dtype, row + k * size, slice.data(), count);
          sum += gemm.dot(slice.data(), x + k, count);
        }
      }
      simd.store(out.dtype, &sum, out.as<char>() + i * size, 1);
    }
  });
}

const GemmKernels& gemm_kernels(Isa isa) {
  return pick(isa, portable::kGemmKernels, avx2::kGemmKernels, avx512::kGemmKernels);
}

const ProbeKernels& probe_kernels(Isa isa) {
  return pick(isa, portable::kProbeKernels, avx2::kProbeKernels, avx512::kProbeKernels);
}

const MatrixKernels& matrix_kernels(Isa isa) {
  return isa == Isa::amx ? avx512::kMatrixKernels : avx512::kDotKernels;
}

}  // namespace ridgeline

// Matrix products from three loops to packed register tiles: the rungs below the library's, for the
// GEMM lab.
//
//   run_gemm(GemmRung::simd, {.a = a, .b = b, .out = out}, {.pool = pool, .isa = isa});
#pragma once

#include "kernels/cpu/context.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// out[m, n] = a[m, k] b[k, n], all contiguous and of one dtype, sums in fp32. With n = 1 it is a
// matrix times a vector, and each rung has a loop of its own for that.
struct GemmOperands {
  TensorView a, b, out;
};

enum class GemmRung {
  naive,  // a dot product per element, down the columns of b
  tiled,  // blocks that stay in the first-level cache
  simd,   // packed panels and a tile of sums in vector registers
};

void gemm_naive(const GemmOperands& operands, const CpuContext& context);
void gemv_naive(const GemmOperands& operands, const CpuContext& context);
void gemm_tiled(const GemmOperands& operands, const CpuContext& context);
void gemv_tiled(const GemmOperands& operands, const CpuContext& context);
void gemm_simd(const GemmOperands& operands, const CpuContext& context);
void gemv_simd(const GemmOperands& operands, const CpuContext& context);

void run_gemm(GemmRung rung, const GemmOperands& operands, const CpuContext& context);

}  // namespace ridgeline

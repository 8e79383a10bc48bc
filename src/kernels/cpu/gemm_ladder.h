// Matrix products on a CPU for the GEMM lab, from three loops to packed tiles and the library.
//
//   run_gemm(GemmRung::simd, {.a = a, .b = b, .out = out}, {.pool = pool, .isa = isa});
#pragma once

#include "kernels/cpu/context.h"
#include "kernels/gemm_rung.h"

namespace ridgeline {

void gemm_naive(const GemmOperands& operands, const CpuContext& context);
void gemv_naive(const GemmOperands& operands, const CpuContext& context);
void gemm_tiled(const GemmOperands& operands, const CpuContext& context);
void gemv_tiled(const GemmOperands& operands, const CpuContext& context);
void gemm_simd(const GemmOperands& operands, const CpuContext& context);
void gemv_simd(const GemmOperands& operands, const CpuContext& context);
void gemm_library(const GemmOperands& operands, const CpuContext& context);

void run_gemm(GemmRung rung, const GemmOperands& operands, const CpuContext& context);

}  // namespace ridgeline

// Matrix products in bf16 on the matrix units of recent Xeons (AMX), or by dot products of pairs in
// vectors (AVX512-BF16).
#pragma once

#include "kernels/cpu/gemm.h"

namespace ridgeline {

// Whether the operands are bf16 and the instruction set multiplies such.
bool fits_tiles(const Gemm& product, Isa isa);

// Null: the calling thread alone. The order of every sum depends on k only.
void gemm_on_tiles(const Gemm& product, Isa isa, ThreadPool* pool);

}  // namespace ridgeline

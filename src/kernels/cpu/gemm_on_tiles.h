// Matrix products in bf16 on the matrix units of recent Xeons (AMX).
#pragma once

#include "kernels/cpu/gemm.h"

namespace ridgeline {

// Whether the operands are bf16 and the instruction set has tiles.
bool fits_tiles(const Gemm& product, Isa isa);

// Null: the calling thread alone. The order of every sum depends on k only.
void gemm_on_tiles(const Gemm& product, ThreadPool* pool);

}  // namespace ridgeline

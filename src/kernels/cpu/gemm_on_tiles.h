// Matrix products in bf16 on the matrix units of recent Xeons (AMX), or by vector dot products of
// pairs (AVX512-BF16).
#pragma once

#include <functional>

#include "kernels/cpu/gemm.h"

namespace ridgeline {

// Whether the operands are bf16 and the instruction set has such products.
bool fits_tiles(const Gemm& product, Isa isa);

// `pool`: null for the calling thread alone. The order of every sum depends only on k.
void gemm_on_tiles(const Gemm& product, Isa isa, ThreadPool* pool);

// Calls task(item) for `count` items, by the threads of the pool or, if it is null, by the calling
// thread alone.
void for_each_item(ThreadPool* pool, int64_t count, const std::function<void(int64_t item)>& task);

}  // namespace ridgeline

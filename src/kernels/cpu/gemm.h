// Matrix products by our own kernels: packed panels, and a tile of sums in vector registers. Few
// rows are multiplied without packing.
//
//   gemm({.m = m, .n = n, .k = k, .a = a, .b = b, .c = c}, {.pool = pool, .isa = isa});
#pragma once

#include <cstdint>

#include "graph/dtype.h"
#include "kernels/cpu/context.h"

namespace ridgeline {

// Strides in elements; any values are allowed.
struct GemmOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t row_step = 0, column_step = 1;
};

// Rows are contiguous.
struct GemmResult {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t row_step = 0;
};

// c[m, n] = a[m, k] b[k, n], with sums in fp32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  GemmOperand a, b;
  GemmResult c;
};

// By all threads of the pool, or by the calling thread alone. The order of every sum depends only
// on k, so both give the same bits.
void gemm(const Gemm& product, const CpuContext& context);
void gemm_alone(const Gemm& product, Isa isa);

}  // namespace ridgeline

// A matrix product by definition: one thread for each element of the result.
//
// Constants: TYPE.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kSide = 16;  // of the square of results of a block

extern "C" __global__ void __launch_bounds__(kSide* kSide)
    gemm_naive(const __grid_constant__ GemmParams p) {
  wait_for_earlier_kernels();
  const int64 row = blockIdx.x / p.blocks_across * kSide + threadIdx.x / kSide;
  const int64 column = blockIdx.x % p.blocks_across * kSide + threadIdx.x % kSide;
  if (row >= p.m || column >= p.n) return;
  const TYPE* a = static_cast<const TYPE*>(p.a) + row * p.k;
  const TYPE* b = static_cast<const TYPE*>(p.b) + column;
  float sum = 0;
  for (int64 k = 0; k < p.k; ++k) sum += widen(a[k]) * widen(b[k * p.n]);
  static_cast<TYPE*>(p.out)[row * p.n + column] = Narrow<TYPE>::from(sum);
}

}  // namespace ridgeline

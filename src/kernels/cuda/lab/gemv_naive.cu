// A matrix times a vector by definition: one thread for each row, so that adjacent threads read memory a row apart.
//
// Constants: TYPE, THREADS.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    gemv_naive(const __grid_constant__ GemmParams p) {
  wait_for_earlier_kernels();
  const int64 row = static_cast<int64>(blockIdx.x) * THREADS + threadIdx.x;
  if (row >= p.m) return;
  const TYPE* a = static_cast<const TYPE*>(p.a) + row * p.k;
  const TYPE* x = static_cast<const TYPE*>(p.b);
  float sum = 0;
  for (int64 k = 0; k < p.k; ++k) sum += widen(a[k]) * widen(x[k]);
  static_cast<TYPE*>(p.out)[row] = Narrow<TYPE>::from(sum);
}

}  // namespace ridgeline

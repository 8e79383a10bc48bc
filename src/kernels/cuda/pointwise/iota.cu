// 0, 1, 2, ...
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void iota(const __grid_constant__ IotaParams p) {
  wait_for_earlier_kernels();
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < p.count) p.out[i] = static_cast<int>(i);
}

}  // namespace ridgeline

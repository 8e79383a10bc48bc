// A matrix times a vector: a warp for each row, in which adjacent threads read adjacent packs.
//
// Constants: TYPE, PACK (elements of one access), THREADS.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kLanes = 32;
constexpr int kInFlight = 4;  // packs that a thread loads before it uses the first

extern "C" __global__ void __launch_bounds__(THREADS)
    gemv_tiled(const __grid_constant__ GemmParams p) {
  wait_for_earlier_kernels();
  const int64 row = static_cast<int64>(blockIdx.x) * (THREADS / kLanes) + threadIdx.x / kLanes;
  if (row >= p.m) return;
  const TYPE* a = static_cast<const TYPE*>(p.a) + row * p.k;
  const TYPE* x = static_cast<const TYPE*>(p.b);
  constexpr int kStride = kLanes * PACK;
  float sums[kInFlight] = {};
  int64 k = threadIdx.x % kLanes * PACK;
  for (; k + (kInFlight - 1) * kStride < p.k; k += kInFlight * kStride) {
    Pack<TYPE, PACK> left[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) left[i] = load_pack<PACK>(a + k + i * kStride);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const auto right = load_pack<PACK>(x + k + i * kStride);
#pragma unroll
      for (int at = 0; at < PACK; ++at) sums[i] += widen(left[i].at[at]) * widen(right.at[at]);
    }
  }
  for (; k < p.k; k += kStride) {
    const auto left = load_pack<PACK>(a + k);
    const auto right = load_pack<PACK>(x + k);
#pragma unroll
    for (int at = 0; at < PACK; ++at) sums[0] += widen(left.at[at]) * widen(right.at[at]);
  }
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (threadIdx.x % kLanes == 0) static_cast<TYPE*>(p.out)[row] = Narrow<TYPE>::from(sum);
}

}  // namespace ridgeline

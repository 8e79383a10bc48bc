// Reductions over a group of threads (part of a warp, a warp, or a block), and offsets of walks.
#pragma once

#include "elements.cuh"

namespace ridgeline {

struct Sum {
  static __device__ __forceinline__ float neutral() { return 0.0f; }
  static __device__ __forceinline__ float fold(float a, float b) { return a + b; }
};
struct Max {
  static __device__ __forceinline__ float neutral() { return -infinity(); }
  static __device__ __forceinline__ float fold(float a, float b) { return larger(a, b); }
};

// Folds a value over kGroup threads; each of them gets the result. Groups wider than a warp are the whole block. All
// threads of the block must call it. The order of additions is fixed, so that results are the same in every run.
template <class Fold, int kGroup>
__device__ __forceinline__ float fold_group(float value) {
  constexpr int kLanes = kGroup < 32 ? kGroup : 32;
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    value = Fold::fold(value, __shfl_xor_sync(0xffffffffu, value, distance));
  if constexpr (kGroup > 32) {
    constexpr int kWarps = kGroup / 32;
    __shared__ float partial[kWarps];
    const int lane = threadIdx.x % 32;
    __syncthreads();  // the partial results of the last call have been read
    if (lane == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < kWarps ? partial[lane] : Fold::neutral();
#pragma unroll
    for (int distance = kWarps / 2; distance > 0; distance /= 2)
      value = Fold::fold(value, __shfl_xor_sync(0xffffffffu, value, distance));
    value = __shfl_sync(0xffffffffu, value, 0);
  }
  return value;
}

// The offset of element `index` of a walk.
template <int kAxes, class Index>
__device__ __forceinline__ int64 walk_offset(Index index, const unsigned long long* sizes,
                                             const int64* steps) {
  int64 offset = 0;
#pragma unroll
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    Index along = index;
    if (axis > 0) {
      const Index size = static_cast<Index>(sizes[axis]);
      index /= size;
      along -= index * size;
    }
    offset += static_cast<int64>(along) * steps[axis];
  }
  return offset;
}

}  // namespace ridgeline

// Helpers of generated kernels.
#pragma once

#include "functions.cuh"
#include "groups.cuh"

namespace ridgeline {

__device__ __forceinline__ float round_bf16(float x) {
  return widen(Narrow<bf16>::from(x));
}
__device__ __forceinline__ float round_fp16(float x) {
  return widen(Narrow<fp16>::from(x));
}
__device__ __forceinline__ int to_int(float x) {
  return static_cast<int>(x);
}

}  // namespace ridgeline

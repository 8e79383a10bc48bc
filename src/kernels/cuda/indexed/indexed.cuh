// Shared by the kernels with indices.
#pragma once

#include "elements.cuh"
#include "params.h"

namespace ridgeline {

// The result for an index out of range: NaN, so that the error shows, or 0 for types without NaN.
template <class Stored>
__device__ __forceinline__ Stored nothing() {
  return Narrow<Stored>::from(0);
}
template <>
__device__ __forceinline__ float nothing<float>() {
  return __int_as_float(0x7fffffff);
}
template <>
__device__ __forceinline__ bf16 nothing<bf16>() {
  return {0x7fff};
}
template <>
__device__ __forceinline__ fp16 nothing<fp16>() {
  return {0x7fff};
}

}  // namespace ridgeline

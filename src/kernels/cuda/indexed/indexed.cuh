// What the kernels with indices share.
#pragma once

#include "elements.cuh"
#include "params.h"

namespace ridgeline {

// An index outside its range must show: NaN where there is one, in all other types 0.
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

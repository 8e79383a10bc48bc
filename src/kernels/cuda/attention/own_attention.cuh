// For kernels written by users (docs/own-kernels.md): the element type of the measured row and its conversions.
// HEAD_DIM, CAUSAL and ELEMENT are defined before the first line of the source.
#pragma once

#include "elements.cuh"

#ifndef INFINITY  // math.h is not available
#define INFINITY __int_as_float(0x7f800000)
#endif

namespace ridgeline {
using Element = ELEMENT;  // float, bf16 or fp16
}
using ridgeline::Element;

__device__ __forceinline__ float to_float(Element x) {
  return ridgeline::widen(x);
}
// Rounds to nearest even.
__device__ __forceinline__ Element to_element(float x) {
  return ridgeline::Narrow<Element>::from(x);
}

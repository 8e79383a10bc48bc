// One element of the gradient of softmax or log-softmax.
#pragma once

#include "rows.cuh"

namespace ridgeline {

// The term that is summed over the row.
__device__ __forceinline__ float product_of(TYPE y, TYPE d_y) {
  return LOG ? widen(d_y) : widen(y) * widen(d_y);
}

__device__ __forceinline__ TYPE gradient_of(TYPE y, TYPE d_y, float total) {
  return Narrow<TYPE>::from(LOG ? widen(d_y) - expf(widen(y)) * total
                                : widen(y) * (widen(d_y) - total));
}

}  // namespace ridgeline

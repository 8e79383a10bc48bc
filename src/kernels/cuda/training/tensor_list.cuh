// Many tensors in one launch: which of them a block processes.
#pragma once

#include "params.h"

namespace ridgeline {

// Returns the last tensor whose first block is not after this one.
template <class Tensor>
__device__ __forceinline__ int tensor_of_block(const Tensor* tensors, int count) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tensors[middle].first_block <= static_cast<int>(blockIdx.x))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace ridgeline

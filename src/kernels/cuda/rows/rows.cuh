// Rows assigned to groups of threads, for softmax, log-softmax and their gradients.
//
// Constants: TYPE, PACK (elements of one access), CHUNKS (packs of a thread), GROUP (threads of a row), THREADS (of a
// block), MIN_BLOCKS (of a multiprocessor), AXES (of the walk over rows), INDEX (type that counts rows), EVEN (1:
// columns are contiguous, 0: they have a stride, and PACK is 1), LOG (1: log-softmax).
#pragma once

#include "groups.cuh"
#include "params.h"

namespace ridgeline {

using Packed = Pack<TYPE, PACK>;

// One row of an operand.
struct Row {
  const TYPE* data;
  int64 step;

  __device__ __forceinline__ Packed load(int64 column) const {
    return load_pack<PACK>(data + (EVEN ? column : column * step));
  }
};

__device__ __forceinline__ Row row_of(const RowsParams& p, int operand, INDEX row) {
  const WalkOperand& walk = p.operands[operand];
  return {static_cast<const TYPE*>(walk.data) + walk_offset<AXES>(row, p.sizes, walk.steps),
          p.column_steps[operand]};
}

__device__ __forceinline__ Packed filled(float value) {
  Packed pack;
#pragma unroll
  for (int i = 0; i < PACK; ++i) pack.at[i] = Narrow<TYPE>::from(value);
  return pack;
}

struct Share {  // of this thread in its block's rows
  INDEX row;
  bool present;
  int first_column;

  __device__ __forceinline__ int column(int chunk) const {
    return first_column + chunk * (GROUP * PACK);
  }
};

__device__ __forceinline__ Share share_of(const RowsParams& p) {
  const INDEX row = static_cast<INDEX>(blockIdx.x) * (THREADS / GROUP) + threadIdx.x / GROUP;
  return {row, row < static_cast<INDEX>(p.rows), static_cast<int>(threadIdx.x % GROUP) * PACK};
}

}  // namespace ridgeline

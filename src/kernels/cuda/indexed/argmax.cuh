// Elements and their indices as integer keys in the order of argmax: larger values first, NaN above all of them, then
// lower indices.
#pragma once

#include "elements.cuh"
#include "params.h"

namespace ridgeline {

using Key = unsigned long long;

__device__ __forceinline__ Key key_of(float value, unsigned place) {
  const unsigned bits = __float_as_uint(value + 0.0f);  // -0 and 0 are equal
  const unsigned ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
  const unsigned rank = value == value ? ordered : 0xffffffffu;
  return static_cast<Key>(rank) << 32 | ~place;
}

__device__ __forceinline__ int place_of(Key key) {
  return static_cast<int>(~static_cast<unsigned>(key));
}

__device__ __forceinline__ Key larger_key(Key a, Key b) {
  return a > b ? a : b;
}

// Returns the largest key of the block to its first thread.
__device__ __forceinline__ Key largest_of_block(Key key) {
  __shared__ Key of_warps[THREADS / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    key = larger_key(key, __shfl_xor_sync(0xffffffffu, key, distance));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = key;
  __syncthreads();
  if (threadIdx.x == 0)
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) key = larger_key(key, of_warps[warp]);
  return key;
}

}  // namespace ridgeline

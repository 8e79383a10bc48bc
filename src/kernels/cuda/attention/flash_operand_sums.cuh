// Gradients of operands of the score function, added up by the kernel that computes dS, for operands that vary along at
// most one of queries and keys: a warp adds up its part of a tile along other axes, then to sums shared by all blocks.
//
// Constants from the host, if there are such operands, as lists separated by commas: OPERAND_GRADIENTS, expressions of
// `at` and `d_result`, and OPERAND_AXES, the axes of each.
#pragma once

#include "flash_common.cuh"

namespace ridgeline {

constexpr int kScoreTile = 64;  // queries or keys that share a sum if the operand does not vary along that axis

#ifdef OPERAND_GRADIENTS
constexpr unsigned kOperandAxes[] = {OPERAND_AXES};
constexpr int kOperandSums = sizeof kOperandAxes / sizeof kOperandAxes[0];
#else
constexpr int kOperandSums = 0;
#endif

#ifdef OPERAND_GRADIENTS
struct OperandGradients {
  float v[kOperandSums];
};
__device__ __forceinline__ OperandGradients operand_gradients(const ScorePlace& at, float d_result) {
  return {OPERAND_GRADIENTS};
}

// Adds up both numbers over the eight rows of a tile: lanes 0 to 3 get the sums of `first`, 4 to 7 those of `second`.
__device__ __forceinline__ float add_rows(float first, float second) {
  const bool has_second = (lane() & 4) != 0;
  float sum = has_second ? second : first;
  sum += __shfl_xor_sync(~0u, has_second ? first : second, 4);
  sum += __shfl_xor_sync(~0u, sum, 8);
  return sum + __shfl_xor_sync(~0u, sum, 16);
}

// Adds to the sum of operand kNumber to which the score at `at` belongs.
template <int kNumber>
__device__ __forceinline__ void add_to_sum(const FlashBackwardParams& p, const ScorePlace& at, float x) {
  constexpr unsigned kAxes = kOperandAxes[kNumber];
  constexpr bool kOfQueries = kAxes & along::queries, kOfKeys = kAxes & along::keys;
  const auto tiles = [](int length) { return (length + kScoreTile - 1) / kScoreTile; };
  const int rows = kOfQueries ? p.queries : tiles(p.queries), columns = kOfKeys ? p.keys : tiles(p.keys);
  const int row = kOfQueries ? at.query : at.query / kScoreTile, column = kOfKeys ? at.key : at.key / kScoreTile;
  const int heads = kAxes & along::heads ? p.heads : 1;
  const int head = (kAxes & along::batches ? at.batch * heads : 0) + (kAxes & along::heads ? at.head : 0);
  float* to = p.sums[kNumber].data + (static_cast<long long>(head) * rows + row) * columns + column;
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}
#endif

// Adds up the gradients of all operands. `d_values`: gradients of the score function's values, keys x queries;
// place_of(n, i) returns the coordinates of element `i` of tile `n`. Elements beyond the last query or key are 0 and
// have its coordinates.
template <int kNumber = 0, int kTiles, class PlaceOf>
__device__ __forceinline__ void add_operand_gradients(const Accumulator (&d_values)[kTiles],
                                                      const FlashBackwardParams& p, PlaceOf place_of) {
#ifdef OPERAND_GRADIENTS
  constexpr unsigned kAxes = kOperandAxes[kNumber];
  float of_key[2] = {};
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    float of_query[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float gradient = operand_gradients(place_of(n, i), d_values[n].v[i]).v[kNumber];
      (kAxes & along::queries ? of_query[i % 2] : of_key[i / 2]) += gradient;
    }
    if constexpr (kAxes & along::queries) {
      const float sum = add_rows(of_query[0], of_query[1]);
      if (lane() < 8) add_to_sum<kNumber>(p, place_of(n, lane() / 4), sum);
    }
  }
  if constexpr (kAxes & along::keys) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = quad_sum(of_key[i]);
      if (lane() % 4 == 0) add_to_sum<kNumber>(p, place_of(0, 2 * i), sum);
    }
  } else if constexpr (!(kAxes & along::queries)) {
    const float sum = quad_sum(add_rows(of_key[0] + of_key[1], 0));
    if (lane() == 0) add_to_sum<kNumber>(p, place_of(0, 0), sum);
  }
  if constexpr (kNumber + 1 < kOperandSums) add_operand_gradients<kNumber + 1>(d_values, p, place_of);
#endif
}

}  // namespace ridgeline

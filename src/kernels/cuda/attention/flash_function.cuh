// The function of scores that an attention node may have, and its gradient. Without one the scores stay as they are.
//
// Constants from the host, if there is one: SCORE_VALUE and SCORE_GRADIENT, bodies of functions that read
// operands by `at.operand<Type>(number)`.
#pragma once

#include "elements.cuh"
#include "functions.cuh"
#include "params.h"

namespace ridgeline {

// A score among [batch, heads, queries, keys].
struct ScorePlace {
  const FlashOperand* operands;
  int batch, head, query, key;

  template <class Stored>
  __device__ __forceinline__ auto operand(int number) const {
    const FlashOperand& from = operands[number];
    return widen(static_cast<const Stored*>(from.data)[batch * from.batch + head * from.head + query * from.query +
                                                       key * from.key]);
  }
};

#ifdef SCORE_VALUE
constexpr bool kFunction = true;
__device__ __forceinline__ float score_value(const ScorePlace& at, float score) { SCORE_VALUE }
#else
constexpr bool kFunction = false;
__device__ __forceinline__ float score_value(const ScorePlace&, float score) { return score; }
#endif

#ifdef SCORE_GRADIENT
__device__ __forceinline__ float score_gradient(const ScorePlace& at, float score, float d_result) { SCORE_GRADIENT }
#else
__device__ __forceinline__ float score_gradient(const ScorePlace&, float, float d_result) { return d_result; }
#endif

}  // namespace ridgeline

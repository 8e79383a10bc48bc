// The score function of an attention node and its gradient. Without one, scores are left unchanged.
//
// Constants from the host, if there is a function: SCORE_VALUE and SCORE_GRADIENT, bodies of functions that read
// operands by `at.operand<Type, axes>(number)`. A gradient that is d_result times a constant needs no SCORE_GRADIENT:
// the host multiplies the scale of the results by the constant.
#pragma once

#include "elements.cuh"
#include "functions.cuh"
#include "params.h"

namespace ridgeline {

// The axes along which an operand varies, as compile-time constants: a value that several scores share is loaded once.
namespace along {
constexpr unsigned batches = 1, heads = 2, queries = 4, keys = 8;
}

// The coordinates of a score in [batches, heads, queries, keys].
struct ScorePlace {
  const FlashOperand* operands;
  int batch, head, query, key;

  template <class Stored, unsigned kAxes>
  __device__ __forceinline__ auto operand(int number) const {
    const FlashOperand& from = operands[number];
    const char* at = static_cast<const char*>(from.data);
    if (kAxes & along::batches) at += batch * from.batch;
    if (kAxes & along::heads) at += head * from.head;
    if (kAxes & along::queries) at += static_cast<long long>(query) * from.query;
    if (kAxes & along::keys) at += static_cast<long long>(key) * from.key;
    return widen(*reinterpret_cast<const Stored*>(at));
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
constexpr bool kChained = true;
__device__ __forceinline__ float score_gradient(const ScorePlace& at, float score, float d_result) { SCORE_GRADIENT }
#else
constexpr bool kChained = false;
__device__ __forceinline__ float score_gradient(const ScorePlace&, float, float d_result) { return d_result; }
#endif

}  // namespace ridgeline

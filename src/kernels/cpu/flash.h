// Attention in O(S) memory on the CPU: tiles of scores stay in cache and never reach memory.
//
//   flash_forward({.q = q, .k = k, .v = v, .out = out, .log_sum_exp = lse, .scale = 0.125f,
//                  .mask = {.causal = true}}, context);
#pragma once

#include <cstdint>

#include "graph/attention_spec.h"
#include "kernels/cpu/context.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

class ScoreTiles;

// Shapes: q, out [B, H, Sq, D]; k, v [B, Hk, Sk, D] with H a multiple of Hk; log_sum_exp [B, H, Sq]
// in fp32. All five tensors of elements share one dtype; any strides.
struct FlashForward {
  TensorView q, k, v;
  TensorView out, log_sum_exp;
  float scale = 1.0f;
  AttentionMask mask = {};
  const ScoreTiles* function = nullptr;  // score function, applied before the mask
};

struct FlashBackward {
  TensorView q, k, v, out, log_sum_exp, d_out;
  TensorView d_q, d_k, d_v;
  float scale = 1.0f;
  AttentionMask mask = {};
  BackwardAlgorithm algorithm = BackwardAlgorithm::single_pass;
  const ScoreTiles* function = nullptr;  // its sums receive the gradients of its operands
};

// A row that sees no key has output 0, log-sum-exp -inf and gradient 0.
void flash_forward(const FlashForward& problem, const CpuContext& context);
void flash_backward(const FlashBackward& problem, const CpuContext& context);

}  // namespace ridgeline

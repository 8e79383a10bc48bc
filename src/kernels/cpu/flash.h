// Attention in O(S) memory on the CPU: tiles of scores live in cache and never reach memory.
//
//   flash_forward({.q = q, .k = k, .v = v, .out = out, .log_sum_exp = lse, .scale = 0.125f,
//                  .mask = {.causal = true}}, context);
#pragma once

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

// Which keys a query may see. With Sq != Sk, query i stands at key position i (top left) or at
// i + Sk - Sq (bottom right); window w keeps the keys at positions (p - w, p], 0 keeps all.
struct AttentionMask {
  enum class Alignment : uint8_t { top_left, bottom_right };
  bool causal = false;
  Alignment alignment = Alignment::top_left;
  int64_t window = 0;

  bool operator==(const AttentionMask&) const = default;
};

// Shapes: q, out [B, H, Sq, D]; k, v [B, Hk, Sk, D] with H a multiple of Hk; log_sum_exp [B, H, Sq]
// in fp32. All five tensors of elements share one dtype; any strides.
struct FlashForward {
  TensorView q, k, v;
  TensorView out, log_sum_exp;
  float scale = 1.0f;
  AttentionMask mask = {};
};

enum class BackwardAlgorithm {
  two_pass,     // dQ by query tiles, then dK and dV by key tiles: 7 products, bitwise reproducible
  single_pass,  // all three by key tiles, dQ summed across tiles: 5 products
};

struct FlashBackward {
  TensorView q, k, v, out, log_sum_exp, d_out;
  TensorView d_q, d_k, d_v;
  float scale = 1.0f;
  AttentionMask mask = {};
  BackwardAlgorithm algorithm = BackwardAlgorithm::two_pass;
};

// A row with nothing to attend to gives output 0, log-sum-exp -inf and gradient 0.
void flash_forward(const FlashForward& problem, const CpuContext& context);
void flash_backward(const FlashBackward& problem, const CpuContext& context);

}  // namespace ridgeline

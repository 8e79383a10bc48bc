// Brings queries, keys and values with any leading axes into the shape of an attention node.
#pragma once

#include "graph/tensor.h"

namespace ridgeline {

struct Heads {
  Tensor q, k, v;  // [B, H, Sq, D], [B, Hk, Sk, D], [B, Hk, Sk, D]
};

// q [..., Sq, D]; k and v [..., Sk, D], whose leading axes broadcast to `leading`. Uses only views
// where possible: key heads that were repeated for groups of query heads are collapsed again.
Heads as_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Shape& leading);

// x, which broadcasts to scores [leading..., Sq, Sk], as [B, H, Sq, Sk] with ones where it is
// broadcast.
Tensor as_score_operand(const Tensor& x, const Shape& leading, int64_t batch);

// Swaps the last two axes; a permuted tensor gets no second permute.
Tensor turned(const Tensor& x);

}  // namespace ridgeline

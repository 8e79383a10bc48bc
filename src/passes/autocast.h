// Mixed precision: inserts the casts that PyTorch's autocast would make in a forward graph.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// Products run in `narrow`, bf16 or fp16; softmax, exp, log, rsqrt and sums in fp32; a pointwise op
// in the widest of its operands' dtypes, not counting scalar constants. Each value is cast once,
// like PyTorch's weight cache within a step. Apply before gradient(), which differentiates casts to
// casts: gradients of fp32 weights are fp32. Outputs may change their dtype: logits come out in 16
// bits.
Graph autocast(const Graph& forward, DType narrow = DType::bf16);

}  // namespace ridgeline

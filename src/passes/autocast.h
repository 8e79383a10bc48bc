// Mixed precision: inserts the casts with which PyTorch's autocast runs a forward graph.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// Products run in `narrow`, bf16 or fp16; softmax, exp, log, rsqrt and sums in fp32; a pointwise op in the widest of
// its operands' dtypes, where a scalar constant has no say. One value is cast once, as PyTorch's
// weight cache does within a step. To be applied before gradient(), which turns casts into casts:
// gradients of fp32 weights are fp32. Outputs may change their dtype: logits come out in 16 bits.
Graph autocast(const Graph& forward, DType narrow = DType::bf16);

}  // namespace ridgeline

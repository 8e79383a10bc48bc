// Losses of language models.
#pragma once

#include "graph/tensor.h"

namespace ridgeline {

// The mean over tokens of -log softmax(logits)[target], as fp32 [1]; logits [..., V], targets i32
// [...].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

}  // namespace ridgeline

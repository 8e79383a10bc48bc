// Gradient accumulation: a step on a large batch runs forward and backward of its micro-batches in
// turn, so that only one micro-batch's activations are live at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

// The weight of one micro-batch's loss in the mean over all of them: the gradients of weighted
// losses add up to those of the whole batch.
constexpr double micro_batch_weight(int64_t micro_batches) {
  return 1.0 / static_cast<double>(micro_batches);
}

// Throws a usage error if the batch cannot be split into that many equal parts.
void check_micro_batches(int64_t batch_size, int64_t micro_batches);

// Appends `part`, the graph of one micro-batch, `count` times to `whole`, an empty graph: its
// inputs once, those that `is_batched` names `count` times as long in their first dimension, of
// which each micro-batch reads its slice. Stages are repeated: forward, backward, forward,
// backward, ... Results are the sums of `summed`, values of `part`, in the order of micro-batches;
// each is added as soon as it is computed. The caller appends communication of the results, or an
// optimizer, once.
std::vector<Tensor> accumulate(Graph& whole, const Graph& part, int64_t count,
                               const std::function<bool(std::string_view input)>& is_batched,
                               std::span<const Value> summed);

}  // namespace ridgeline

// Finds softmax(f(Q K^T)) V and makes it one attention node.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// A softmax between two products that stayed as it was, and why; for --explain.
struct FlashRefusal {
  std::string node;
  std::string reason;
};

struct FlashReport {
  std::vector<std::string> found;  // names of the nodes that became attention
  std::vector<FlashRefusal> refusals;
};

struct FlashOptions {
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  int64_t max_head_dim = 256;  // of the kernels
};

// f may be anything pointwise, with tensors that broadcast to the scores: factors, biases, caps,
// masks by position or by tensor. Causal masks and windows outside of it become the node's mask, by
// which kernels skip what is hidden; a scale alone becomes its scale; everything else its function.
// A query whose scores are all -inf gets 0, where softmax gives NaN. Leading axes may be any; key
// heads that are expanded to query heads are read as they are. Casts between the products fall
// away, since the kernels keep scores in fp32. To be applied before gradient().
Graph flash(const Graph& forward, FlashOptions options = {}, FlashReport* report = nullptr);

}  // namespace ridgeline

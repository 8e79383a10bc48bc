// Finds softmax(f(Q K^T)) V and replaces it by one attention node.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// A softmax between two products that was not replaced, and why; for --explain.
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
// masks by position or by tensor. Causal masks and windows outside f become the node's mask, which
// lets kernels skip masked tiles; a scale alone becomes its scale; everything else its function. A
// query whose scores are all -inf gets 0, where softmax gives NaN. Any leading axes are allowed;
// key heads that are expanded to query heads are read unexpanded. Casts between the products are
// dropped, since the kernels keep scores in fp32. Apply before gradient().
Graph flash(const Graph& forward, FlashOptions options = {}, FlashReport* report = nullptr);

}  // namespace ridgeline

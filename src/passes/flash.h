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

// f may be any chain of casts, factors and where(..., -inf) whose conditions compare positions such
// that AttentionMask can say it: causal from either corner, with a window. Leading axes may be any;
// key heads that are expanded to query heads are read as they are. Casts between the products fall
// away, since the kernels keep scores in fp32. To be applied before gradient().
Graph flash(const Graph& forward, FlashOptions options = {}, FlashReport* report = nullptr);

}  // namespace ridgeline

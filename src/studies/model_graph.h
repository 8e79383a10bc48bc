// The graph that one row of the transformer study runs, and what the passes made of it.
#pragma once

#include <string>
#include <vector>

#include "studies/model_workload.h"

namespace ridgeline {

struct ModelGraph {
  Graph graph;
  size_t flash_nodes = 0;                       // attentions that became one node
  std::vector<std::string> flash_refused = {};  // "node: reason", one for each that did not
};

// Vanilla: plain attention, the casts of the precision. Compiled: besides, flash before the
// gradient is taken; decompose and simplify after it.
// `backward`: how attentions that flash found take their gradient.
ModelGraph model_graph(const ModelWorkload& workload, Scenario scenario,
                       const AdamWOptions& optimizer = {},
                       BackwardAlgorithm backward = BackwardAlgorithm::single_pass);

}  // namespace ridgeline

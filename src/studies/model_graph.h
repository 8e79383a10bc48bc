// The graph that one row of the transformer study runs, and what the passes made of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "studies/model_workload.h"

namespace ridgeline {

struct ModelGraph {
  Graph graph;
  size_t flash_nodes = 0;                       // attentions that became one node
  std::vector<std::string> flash_refused = {};  // "node: reason", one for each that did not
};

struct ModelGraphOptions {
  AdamWOptions optimizer = {};
  // How attentions that flash found take their gradient.
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
  std::function<void(const std::string&)> stage = {};  // told what begins: "trace", "passes"
};

// Vanilla: plain attention, the casts of the precision. Compiled: besides, flash before the
// gradient is taken; decompose and simplify after it.
ModelGraph model_graph(const ModelWorkload& workload, Scenario scenario,
                       const ModelGraphOptions& options = {});

}  // namespace ridgeline

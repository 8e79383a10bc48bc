// The order in which nodes run and when each storage is released.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/layout.h"

namespace ridgeline {

struct Step {
  uint32_t node = 0;
  std::vector<Value> releases;  // storages that are not read after this step
  // Collectives to wait for before this step begins; if it is this step itself, before it ends.
  std::vector<uint32_t> joins = {};
};

struct Schedule {
  std::vector<Layout> layouts;  // indexed by Graph::index
  std::vector<Step> steps;
  std::vector<Stage> stages;  // begin and end count steps
};

// The eager schedule: nodes in the order they were added, results freed at last use. Inputs belong
// to the caller; outputs are kept until the next run.
Schedule eager_schedule(const Graph& graph);

}  // namespace ridgeline

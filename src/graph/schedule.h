// The order in which nodes run and the moment each piece of memory is given back.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "graph/layout.h"

namespace ridgeline {

struct Step {
  uint32_t node = 0;
  std::vector<Value> releases;  // storages nobody reads after this step
  // Collectives that are done before this step begins; one that is this step itself: before it ends.
  std::vector<uint32_t> joins = {};
};

struct Schedule {
  std::vector<Layout> layouts;  // indexed by Graph::index
  std::vector<Step> steps;
  std::vector<Stage> stages;  // begin and end count steps
};

// The eager schedule: nodes as they were added, freed at last use. Inputs belong to the caller and
// outputs stay until the next run.
Schedule eager_schedule(const Graph& graph);

}  // namespace ridgeline

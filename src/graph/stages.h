// Stages by name: a graph may have several forward and backward stages, one pair per micro-batch.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

inline constexpr std::string_view kForwardStage = "forward";
inline constexpr std::string_view kBackwardStage = "backward";

// Which nodes belong to a stage of this name.
inline std::vector<bool> nodes_of_stages(const Graph& graph, std::string_view name) {
  std::vector<bool> belongs(graph.nodes().size(), false);
  for (const Stage& stage : graph.stages())
    for (uint32_t node = stage.begin; stage.name == name && node < stage.end; ++node)
      belongs[node] = true;
  return belongs;
}

}  // namespace ridgeline

// What the two families of strategies share.
#pragma once

#include <string>
#include <vector>

#include "passes/distribute.h"
#include "passes/gradients.h"
#include "passes/rewrite.h"

namespace ridgeline {

inline constexpr const char* kCommunicationScope = "communication";

Graph data_parallel(const Graph& graph, const Distribution& how);
Graph shard(const Graph& graph, const Distribution& how);

// The name of the first parameter that an input holds.
std::string first_parameter(const Graph& graph, Value input);

// An update of other tensors with the scalars of the node.
std::vector<AdamWTensors> updated_tensors(const Site& site,
                                          const std::vector<AdamWTensors>& tensors);

}  // namespace ridgeline

// Analytic work of a graph per node: FLOPs, multiply-accumulates and the minimum of bytes moved.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

struct Cost {
  double flops = 0;         // an FMA counts as two; a pointwise op as one per element; see cost.cc
  double macs = 0;          // multiply-accumulates of matmuls
  double bytes = 0;         // every input element read once, every output element written once
  double communicated = 0;  // bytes that a rank must send to others (bus_factor)

  Cost& operator+=(const Cost& other);
  double arithmetic_intensity() const { return bytes > 0 ? flops / bytes : 0; }
};

// One entry per node. Views and constants cost nothing; a broadcast operand is read once; caches
// are full, and attention reads their whole capacity.
std::vector<Cost> node_costs(const Graph& graph);

Cost stage_cost(const Graph& graph, const Stage& stage);

}  // namespace ridgeline

// Keeps 16-bit weights for products, beside the master weights that the optimizer reads.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// For complete graphs, after gradients and simplify(). A parameter that is cast to 16 bits
// - becomes an input of that dtype under its own name if it has no other readers: without an
//   optimizer nothing needs more precision;
// - else gets an additional input in the role of a copy, which adamw_update writes together with
//   the parameter. The caller fills both.
// Updates read gradients in the dtype in which they were computed, not cast. They are split into
// several nodes, so that one can run while others wait for their gradients.
Graph master_weights(const Graph& graph);

}  // namespace ridgeline

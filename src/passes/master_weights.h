// Weights that products read in 16 bits are kept in 16 bits, beside those that the optimizer reads.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// For finished graphs, after gradients and simplify(). A parameter that is cast to 16 bits
// - becomes an input of that dtype under its own name if nobody reads it otherwise: without an
//   optimizer there is nothing that needs more;
// - else gets an input beside it in the role of a copy, which adamw_update writes together with the
//   parameter. Whoever fills the parameter fills both.
// Updates read gradients in the dtype in which they were computed, instead of casts of them. They
// are cut into several nodes, so that one can run while others wait for their gradients.
Graph master_weights(const Graph& graph);

}  // namespace ridgeline

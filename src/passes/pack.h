// Products of one tensor with several weights become one product with all of them.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// x A^T, x B^T, ... for weights that are parameters without other readers become parts of x W^T,
// where the input W stacks A, B, ... as its parts. A small product leaves most of a GPU idle; and
// in the gradients, those of the weights and of x become single products too. For forward graphs.
Graph pack(const Graph& forward);

}  // namespace ridgeline

// Products of one tensor with several weights become one product with all of them.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// x A^T, x B^T, ... for weights that are parameters and that nobody else reads become parts of
// x W^T, where the input W holds A, B, ... below each other, as its parts. A small product leaves
// most of a GPU idle; and when gradients are taken of the result, those of the weights and of x are
// single products too. For forward graphs.
Graph pack(const Graph& forward);

}  // namespace ridgeline

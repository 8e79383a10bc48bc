// Lowers composite ops to pointwise ops and reductions, which fusion then combines again.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// Softmax, log-softmax, SiLU and their gradients, computed as the kernels compute them: in fp32,
// the maximum of a row subtracted before exp. 16-bit operands are cast to fp32 and the result back.
Graph decompose(const Graph& graph);

}  // namespace ridgeline

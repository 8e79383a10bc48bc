// 16-bit products whose results are needed in fp32.
#pragma once

#include "plan/fuse.h"

namespace ridgeline {

// A product whose only reader is a kernel that casts it to fp32 writes fp32 directly: it
// accumulates in fp32 anyway. This removes the kernel and the rounding in between. Not if ranks add
// the result: their sums do not depend on where a strategy puts the collective.
void widen_products(const Graph& graph, FusedGraph& fused);

}  // namespace ridgeline

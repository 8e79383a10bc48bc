// Products of 16-bit numbers that are wanted in fp32.
#pragma once

#include "plan/fuse.h"

namespace ridgeline {

// A product that is read by nothing but a kernel that casts it to fp32 writes fp32 at once: it is
// summed up in fp32 anyway. The kernel falls away, and with it the rounding in between.
void widen_products(const Graph& graph, FusedGraph& fused);

}  // namespace ridgeline

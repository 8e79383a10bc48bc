// TF32 products: every fp32 tensor becomes tf32.
#pragma once

#include "graph/graph.h"

namespace ridgeline {

// tf32 is stored as fp32: only products differ. Apply before gradient().
Graph tf32_products(const Graph& forward);

}  // namespace ridgeline

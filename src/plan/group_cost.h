// The FLOPs and bytes of one kernel of a plan.
#pragma once

#include "cost/cost.h"
#include "plan/fuse.h"

namespace ridgeline {

// `nodes`: the costs of library calls alone, to which a wider result, an epilogue and products
// inside an update are added. Empty: only what these add.
Cost group_cost(const Graph& graph, const Group& group, const std::vector<Cost>& nodes);

}  // namespace ridgeline

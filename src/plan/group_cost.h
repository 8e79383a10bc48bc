// What one kernel of a plan computes and moves.
#pragma once

#include "cost/cost.h"
#include "plan/fuse.h"

namespace ridgeline {

// `node`: of a library call by itself; a wider result and an epilogue are added to it.
Cost group_cost(const Graph& graph, const Group& group, const Cost& node);

}  // namespace ridgeline

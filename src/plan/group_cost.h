// What one kernel of a plan computes and moves.
#pragma once

#include "cost/cost.h"
#include "plan/fuse.h"

namespace ridgeline {

// `nodes`: of library calls by themselves; a wider result, an epilogue and products inside of an
// update are added to them. Empty: what these alone add.
Cost group_cost(const Graph& graph, const Group& group, const std::vector<Cost>& nodes);

}  // namespace ridgeline

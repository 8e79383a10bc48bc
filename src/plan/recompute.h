// Plans within a memory budget: what is cheap to compute is computed again instead of kept.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace ridgeline {

struct FittedPlan {
  std::optional<Graph> graph;  // to run instead of the given one; none: that one fits as it is
  Plan plan;                   // of the graph to run
  size_t recomputed = 0;       // results that are computed again
};

// Where the plan needs more than `budget`, results of pointwise ops and norms that a later stage
// reads die after their own stage, and the later stage computes them anew from what is there
// anyway: those first that free most for what computing them moves, no more than it takes. The same
// ops on the same operands: results do not change by a bit. If all of that is not enough, the plan
// is still larger than the budget.
FittedPlan plan_within(const Graph& graph, const PlanOptions& options, Bytes budget);

}  // namespace ridgeline

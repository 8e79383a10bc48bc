// Plans within a memory budget: cheap results are recomputed instead of kept.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace ridgeline {

struct FittedPlan {
  std::optional<Graph> graph;  // to run instead of the given one; none: that one fits as it is
  Plan plan;                   // of the graph to run
  size_t recomputed = 0;       // results that are recomputed
};

// Where the plan exceeds `budget`, results of pointwise ops and norms that a later stage reads are
// released after their stage, and the later stage recomputes them from values that are live anyway:
// first those that free most memory per byte moved, and no more than necessary. Results are bitwise
// unchanged, as the same ops run on the same operands. If that is not enough, the plan still
// exceeds the budget.
FittedPlan plan_within(const Graph& graph, const PlanOptions& options, Bytes budget);

}  // namespace ridgeline

// Drops and merges nodes without changing what is computed.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// How often each rule was applied, by its name.
using SimplifyReport = std::map<std::string_view, int>;

// Removes arithmetic with neutral constants, lossless casts, chains of views, reductions over one
// element and constant conditions, and folds constants as the kernels would. One walk reaches the
// fixpoint: simplify(simplify(g)) is simplify(g).
Graph simplify(const Graph& graph, SimplifyReport* report = nullptr);

// The names of all rules, in the order in which they are tried.
std::vector<std::string_view> simplify_rules();

}  // namespace ridgeline

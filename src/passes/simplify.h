// Drops and merges nodes without changing what is computed.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// How often each rule was applied, by its name.
using SimplifyReport = std::map<std::string_view, int>;

// Arithmetic with neutral constants, casts that lose nothing, chains of views, reductions over one
// element, constant conditions, constants folded as the kernels would compute them. One walk
// reaches the fixpoint: simplify(simplify(g)) is simplify(g).
Graph simplify(const Graph& graph, SimplifyReport* report = nullptr);

// The names of all rules, in the order in which they are tried.
std::vector<std::string_view> simplify_rules();

}  // namespace ridgeline

// Pointwise ops on constants, computed at compile time with the bits that the kernels would give.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace ridgeline {

// The one value that all elements of `x` have, if that is known: a constant, or a view of one.
std::optional<double> constant_value(const Graph& graph, Value x);

// The value of every element of y = op(constants...). None where an operand is no constant, where
// kernels may differ in the last bit (exp, log, sin, ...) or where the result is not a normal
// number.
std::optional<double> fold(const Graph& graph, Value y);

}  // namespace ridgeline

// Pointwise ops on constants, computed at compile time, bitwise equal to the kernels' results.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace ridgeline {

// The value that all elements of `x` share, if known: `x` is a constant, or a view of one.
std::optional<double> constant_value(const Graph& graph, Value x);

// The value of every element of y = op(constants...). None if an operand is not constant, if
// kernels may differ in the last bit (exp, log, sin, ...) or if the result is not a normal number.
std::optional<double> fold(const Graph& graph, Value y);

}  // namespace ridgeline

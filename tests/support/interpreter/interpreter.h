// The oracle: evaluates any graph in fp64 with plain loops, sharing no code with the fast kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

struct InterpreterOptions {
  // Rounds every result to its dtype, and the operands of tf32 products, so that a graph of narrow
  // types can be compared step by step.
  bool round_to_dtype = false;
};

// Values by input name, each contiguous in row-major order; booleans are 0 and 1.
using InterpreterInputs = std::map<std::string, std::vector<double>>;

// Returns every value of the graph, contiguous, by Graph::index.
std::vector<std::vector<double>> interpret(const Graph& graph, const InterpreterInputs& inputs,
                                           const InterpreterOptions& options = {});

// Runs the graph on several ranks, each with its own inputs; collectives combine the operands of
// all. Returns the values by rank.
std::vector<std::vector<std::vector<double>>> interpret_ranks(
    const Graph& graph, const std::vector<InterpreterInputs>& inputs,
    const InterpreterOptions& options = {});

// Rounds `value` to this dtype.
double round_to(DType dtype, double value);

}  // namespace ridgeline

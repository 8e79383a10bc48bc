// The oracle: evaluates any graph in fp64 with plain loops, sharing no code with the fast kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

struct InterpreterOptions {
  // Rounds every result to its dtype, and the operands of tf32 products, so that a graph of
  // narrow types can be compared step for step.
  bool round_to_dtype = false;
};

// Values by input name, each contiguous in row-major order; booleans are 0 and 1.
using InterpreterInputs = std::map<std::string, std::vector<double>>;

// Indexed by Graph::index: every value of the graph, contiguous.
std::vector<std::vector<double>> interpret(const Graph& graph, const InterpreterInputs& inputs,
                                           const InterpreterOptions& options = {});

// The same graph on several ranks, each with its own inputs; collectives see the operands of all.
// By rank.
std::vector<std::vector<std::vector<double>>> interpret_ranks(
    const Graph& graph, const std::vector<InterpreterInputs>& inputs,
    const InterpreterOptions& options = {});

// `value` as a tensor of this dtype would hold it.
double round_to(DType dtype, double value);

}  // namespace ridgeline

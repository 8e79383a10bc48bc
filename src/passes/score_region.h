// Extracts what is between Q K^T and its softmax as a pointwise function of scores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/score_function.h"

namespace ridgeline {

// Makes a function from a graph over scalars, whose inputs are named score, operand0, operand1,
// ..., with any names for positions; its one output is f. Adds the gradients of the score and of
// every floating-point operand.
std::shared_ptr<const ScoreFunction> make_score_function(const Graph& value,
                                                         std::vector<int> positions = {});

struct ScoreRegion {
  Value product = {};  // Q K^T
  std::shared_ptr<const ScoreFunction> function = {};
  std::vector<Value> operands = {};  // of f, each of a shape that broadcasts to the scores
  std::string refusal = {};          // why there is no such function; then the rest is empty
};

// `result` is what the softmax reads, `uses` are use_counts(graph), `accepts` says whether a matmul
// can be Q K^T. All pointwise ops after the product become part of f, and so does anything as large
// as the scores that does not depend on them. The rest are operands: positions, slopes, a bias.
// Casts between floats are dropped. Values that depend on scores must have no other readers.
ScoreRegion find_score_function(const Graph& graph, Value result, std::span<const uint32_t> uses,
                                const std::function<bool(const Node&)>& accepts);

}  // namespace ridgeline

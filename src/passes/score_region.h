// Reads what lies between Q K^T and its softmax as a pointwise function of single scores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/score_function.h"

namespace ridgeline {

// The function of a graph of single numbers, whose inputs are called score, operand0, operand1, ...
// and anything for positions; its one output is f. Adds the gradients of the score and of every
// operand that is a float.
std::shared_ptr<const ScoreFunction> make_score_function(const Graph& value,
                                                         std::vector<int> positions = {});

struct ScoreRegion {
  Value product = {};  // Q K^T
  std::shared_ptr<const ScoreFunction> function = {};
  std::vector<Value> operands = {};  // of f, each of a shape that broadcasts to the scores
  std::string refusal = {};          // why there is no such function; the rest is empty then
};

// `result` is what the softmax reads, `uses` are use_counts(graph), `accepts` says whether a matmul
// can be Q K^T. Everything pointwise above the product becomes part of f, and so does what does not
// depend on the scores but is as large as they are. The rest are operands: positions, slopes, a
// bias. Casts between floats fall away. What depends on scores must be read by f alone.
ScoreRegion find_score_function(const Graph& graph, Value result, std::span<const uint32_t> uses,
                                const std::function<bool(const Node&)>& accepts);

}  // namespace ridgeline

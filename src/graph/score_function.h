// The pointwise f of softmax(f(q k^T)) v, as graphs of single numbers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// Inputs come in this order: the score, each operand, each position. Floats are fp32 whatever the
// tensors hold, since kernels keep scores in fp32.
struct ScoreFunction {
  Graph value;     // one output
  Graph gradient;  // one input more, the gradient of f; see score_gradient()
  // Inputs that no tensor holds: where a score stands along these axes of [B, H, Sq, Sk], as i32.
  std::vector<int> positions = {};

  std::string text() const;  // "v2 = multiply(score, operand0); v3 = tanh(v2)"
};

inline constexpr int kMaxScoreOperands = 6;
size_t operand_count(const ScoreFunction& function);

// Where ScoreFunction::gradient has the gradient of the score, or of operand `i`; none for an
// operand that is no float.
Value score_gradient(const ScoreFunction& function);
std::optional<Value> operand_gradient(const ScoreFunction& function, int i);

// The constant that the gradient of f is multiplied by to get that of the score, where it is one
// constant for all scores.
std::optional<double> constant_score_gradient(const ScoreFunction& function);

// Whether the gradient of operand `i`, a float, depends on the score itself, and not on that of f
// and on operands and positions alone.
bool operand_gradient_reads_score(const ScoreFunction& function, int i);

// The constant that the gradient of f is multiplied by to get that of operand `i`, a float, where
// it is one constant for all scores.
std::optional<double> constant_operand_gradient(const ScoreFunction& function, int i);

// Where f is -infinity for any score, known without the score: unless each of these values of
// ScoreFunction::value, a condition, is what it is wanted to be.
struct ScoreCondition {
  Value condition;
  bool wanted;
};
std::vector<ScoreCondition> score_conditions(const ScoreFunction& function);

// Whether `value` of ScoreFunction::value reads input `number` of it.
bool reads_input(const ScoreFunction& function, Value value, size_t number);

// An operand is [B, H, Sq, Sk] with ones where it is broadcast. Its gradient is summed over batches
// and heads where it is broadcast; along queries and keys it comes in one sum for each tile of
// kScoreTile of them, left for others to add up.
inline constexpr int64_t kScoreTile = 64;
Shape operand_sums(const Shape& operand, int64_t queries, int64_t keys);

// The gradient of an operand that has both axes, added up along diagonals: [B, H, 1, Sq + Sk - 1].
// Sum number n belongs to the scores of query i and key j with j - i = n - (Sq - 1).
Shape diagonal_sums(const Shape& operand);

// The nodes that `wanted` depends on, in order, without leaves: what a kernel has to compute.
std::vector<uint32_t> needed_nodes(const Graph& graph, Value wanted);

}  // namespace ridgeline

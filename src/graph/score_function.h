// The pointwise f of softmax(f(q k^T)) v, as graphs over scalars.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// Inputs in order: the score, each operand, each position. Floats are fp32 whatever the tensors'
// dtype, since kernels keep scores in fp32.
struct ScoreFunction {
  Graph value;     // one output
  Graph gradient;  // with one more input, the gradient of f; see score_gradient()
  // Inputs without a tensor: the index of a score along these axes of [B, H, Sq, Sk], as i32.
  std::vector<int> positions = {};

  std::string text() const;  // "v2 = multiply(score, operand0); v3 = tanh(v2)"
};

inline constexpr int kMaxScoreOperands = 6;
size_t operand_count(const ScoreFunction& function);

// The value in ScoreFunction::gradient that is the gradient of the score, or of operand `i`; none
// for an operand that is not floating-point.
Value score_gradient(const ScoreFunction& function);
std::optional<Value> operand_gradient(const ScoreFunction& function, int i);

// The factor from the gradient of f to that of the score, if it is the same constant for all
// scores.
std::optional<double> constant_score_gradient(const ScoreFunction& function);

// Whether the gradient of operand `i`, a float, depends on the score itself, not only on the
// gradient of f, operands and positions.
bool operand_gradient_reads_score(const ScoreFunction& function, int i);

// The factor from the gradient of f to that of operand `i`, a float, if it is the same constant for
// all scores.
std::optional<double> constant_operand_gradient(const ScoreFunction& function, int i);

// Conditions that mask scores independently of their value: f is -infinity unless each condition, a
// value of ScoreFunction::value, equals `wanted`.
struct ScoreCondition {
  Value condition;
  bool wanted;
};
std::vector<ScoreCondition> score_conditions(const ScoreFunction& function);

// Whether `value` of ScoreFunction::value depends on its input `number`.
bool reads_input(const ScoreFunction& function, Value value, size_t number);

// An operand is [B, H, Sq, Sk] with ones where it is broadcast. Its gradient is summed over batches
// and heads where it is broadcast; along queries and keys it is one partial sum per tile of
// kScoreTile, which later ops add up.
inline constexpr int64_t kScoreTile = 64;
Shape operand_sums(const Shape& operand, int64_t queries, int64_t keys);

// The gradient of an operand that has both axes, summed along diagonals: [B, H, 1, Sq + Sk - 1].
// Sum n covers the scores of query i and key j with j - i = n - (Sq - 1).
Shape diagonal_sums(const Shape& operand);

// The nodes that `wanted` depends on, in order, without leaves: what a kernel has to compute.
std::vector<uint32_t> needed_nodes(const Graph& graph, Value wanted);

}  // namespace ridgeline

// The gradient of an operand of a score function in sums along diagonals, as of a relative bias:
// the kernels against the fp64 interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/tensor.h"
#include "passes/score_region.h"
#include "support/from_environment.h"
#include "support/gpu.h"
#include "support/run_eager.h"

namespace ridgeline::diagonal_gradients_test {
namespace {

using testing::first_seed;
using testing::graphs_wanted;

// Where the gradient of the operand is that of f times a constant, and where it is not.
enum Kind { added, scaled, of_two, capped, product, hidden, kKinds };

Tensor function_of(Kind kind, const Tensor& score, const Tensor& first, const Tensor& second) {
  switch (kind) {
    case added:
      return score * 0.3 + first;
    case scaled:
      return first * -2.5 + score;
    case of_two:
      return score + first * 0.5 + second;
    case capped:
      return tanh(score / 3 + first) * 3;
    case product:
      return score * first + second;
    default:
      return where(less(second, scalar(second, 1)), score + first,
                   scalar(score, -std::numeric_limits<double>::infinity()));
  }
}

struct Problem {
  Graph graph;
  InterpreterInputs inputs;
  std::string text;
};

// The interpreter takes a microsecond or more for each score.
constexpr int64_t kShort = 6, kAll = 9;  // lengths that occur

Problem random_problem(uint64_t seed, DType dtype, BackwardAlgorithm backward,
                       int64_t lengths = kShort) {
  static constexpr int64_t kLengths[kAll] = {1, 2, 31, 64, 65, 100, 128, 190, 257};
  static constexpr int64_t kWidths[] = {16, 64, 72, 96, 128, 160};
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  const int64_t batch = 1 + below(2), key_heads = 1 + below(2), heads = key_heads * (1 + below(2));
  const int64_t queries = kLengths[below(lengths)],
                keys = below(2) == 0 ? queries : kLengths[below(lengths)];
  const int64_t width = kWidths[below(6)];
  AttentionSpec spec{.backward = backward};
  spec.mask.causal = below(2) == 0;
  if (below(2) == 0) spec.mask.alignment = AttentionMask::Alignment::bottom_right;
  if (spec.mask.causal && below(2) == 0) spec.mask.window = 1 + below(queries + keys);
  const auto kind = static_cast<Kind>(below(kKinds));
  const bool reads_two = kind == of_two || kind == product || kind == hidden;
  {
    Graph value;
    const Tensor score = input(value, "score", {DType::f32, {}});
    const Tensor first = input(value, "operand0", {DType::f32, {}});
    const Tensor second = reads_two ? input(value, "operand1", {DType::f32, {}}) : Tensor();
    value.mark_output("result", function_of(kind, score, first, second).value());
    spec.function = make_score_function(value);
  }
  Problem made;
  const auto enter = [&](const char* name, const Shape& shape, DType type) {
    std::vector<double>& values = made.inputs[name];
    for (int64_t i = 0; i < element_count(shape); ++i)
      values.push_back(round_to(type, 0.5 * std::normal_distribution<double>()(random)));
    return input(made.graph, name, {type, shape});
  };
  const Tensor q = enter("q", {batch, heads, queries, width}, dtype),
               k = enter("k", {batch, key_heads, keys, width}, dtype),
               v = enter("v", {batch, key_heads, keys, width}, dtype),
               d_output = enter("d_output", q.shape(), dtype);
  std::vector<Tensor> operands;
  for (const char* name : {"operand0", "operand1"}) {
    const Shape shape = {below(2) == 0 ? 1 : batch, below(2) == 0 ? 1 : heads, queries, keys};
    if (operands.empty() || reads_two)
      operands.push_back(enter(name, shape, below(2) == 0 ? DType::f32 : DType::bf16));
  }
  const AttentionResult result = attention(q, k, v, spec, operands);
  spec.operand_gradients = (1u << operands.size()) - 1;
  spec.diagonal_gradients = below(3) == 0 ? 1 : spec.operand_gradients;
  const AttentionGradients d = attention_gradient(q, k, v, result, d_output, spec, operands);
  made.graph.mark_output("d_q", d.d_q.value());
  made.graph.mark_output("d_k", d.d_k.value());
  made.graph.mark_output("d_v", d.d_v.value());
  for (size_t i = 0; i < operands.size(); ++i)
    made.graph.mark_output("d_operand" + std::to_string(i), d.d_operands[i].value());
  made.text = "seed " + std::to_string(seed) + "\n" + to_text(made.graph);
  return made;
}

// Of the largest element. Weights and gradients of scores are rounded to the dtype in between.
double tolerance(DType dtype) {
  return dtype == DType::f32 ? 3e-5 : dtype == DType::bf16 ? 4e-2 : 6e-3;
}

void expect_right(Device& device, uint64_t cases, int64_t lengths) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (uint64_t seed = first_seed(); seed < first_seed() + cases; ++seed) {
      const auto backward =
          seed % 3 == 0 ? BackwardAlgorithm::two_pass : BackwardAlgorithm::single_pass;
      const Problem problem = random_problem(seed, dtype, backward, lengths);
      const auto expected = interpret(problem.graph, problem.inputs);
      const auto got = testing::run_eager(problem.graph, problem.inputs, device);
      for (const Output& output : problem.graph.outputs()) {
        const std::vector<double>& reference = expected[problem.graph.index(output.value)];
        const std::vector<double>& values = got.at(output.name);
        ASSERT_EQ(values.size(), reference.size());
        double largest = dtype == DType::f32 ? 1 : 3;
        for (double value : reference) largest = std::max(largest, std::abs(value));
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], reference[i], tolerance(dtype) * largest)
              << output.name << "[" << i << "], " << problem.text;
      }
    }
}

TEST(DiagonalGradients, OnTheCpu) {
  CpuDevice device({.threads = 3});
  expect_right(device, graphs_wanted(8), kShort);
}

TEST(DiagonalGradients, OnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_right(device, graphs_wanted(8), kAll);  // each compiles kernels of its own
}

TEST(DiagonalGradients, AreTheSameForAnyNumberOfThreads) {
  CpuDevice one({.threads = 1}), three({.threads = 3});
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const Problem problem = random_problem(seed, DType::f32, BackwardAlgorithm::single_pass);
    EXPECT_EQ(testing::run_eager(problem.graph, problem.inputs, one),
              testing::run_eager(problem.graph, problem.inputs, three));
  }
}

// Two passes promise the same bits: sums that several blocks add to get no more than two parts.
TEST(DiagonalGradients, AreTheSameInEveryRunOfTwoPassesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, DType::bf16, BackwardAlgorithm::two_pass, kAll);
    const auto first = testing::run_eager(problem.graph, problem.inputs, device);
    for (int again = 0; again < 5; ++again)
      ASSERT_EQ(testing::run_eager(problem.graph, problem.inputs, device), first) << problem.text;
  }
}

}  // namespace
}  // namespace ridgeline::diagonal_gradients_test

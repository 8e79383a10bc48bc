#include "runtime/eager_executor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "models/attention.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline::eager_executor_test {
namespace {

// The interpreter rounds where the kernels store. Values of a few units in the last place remain,
// from fp32 arithmetic in between, and each further op may double them.
double tolerance(DType dtype, double reference) {
  const double unit = dtype == DType::f32 ? 4e-5 : 12 * info(dtype).epsilon;
  return unit * (1 + std::abs(reference));
}

void expect_agreement(const testing::RandomGraph& made, DType dtype, Device& device,
                      uint64_t seed) {
  const auto expected = interpret(made.graph, made.inputs, {.round_to_dtype = true});
  const auto got = testing::run_eager(made.graph, made.inputs, device);
  for (const Output& output : made.graph.outputs()) {
    const auto& reference = expected[made.graph.index(output.value)];
    const auto& values = got.at(output.name);
    ASSERT_EQ(values.size(), reference.size());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], reference[i], tolerance(dtype, reference[i]))
          << output.name << "[" << i << "], seed " << seed << "\n"
          << to_text(made.graph);
  }
}

class EagerAgainstOracle : public ::testing::TestWithParam<Isa> {};

TEST_P(EagerAgainstOracle, RandomGraphsInFp32) {
  CpuDevice device({.threads = 3, .isa = GetParam()});
  for (uint64_t seed = 0; seed < 400; ++seed)
    expect_agreement(testing::RandomGraphMaker(seed).make(14), DType::f32, device, seed);
}

// Short graphs: a flipped rounding in 16 bits grows with every further op.
TEST_P(EagerAgainstOracle, RandomGraphsIn16Bits) {
  CpuDevice device({.threads = 2, .isa = GetParam()});
  for (DType dtype : {DType::bf16, DType::f16})
    for (uint64_t seed = 1000; seed < 1200; ++seed)
      expect_agreement(testing::RandomGraphMaker(seed, dtype).make(2), dtype, device, seed);
}

TEST_P(EagerAgainstOracle, LargeReductionsStayAccurate) {
  CpuDevice device({.threads = 2, .isa = GetParam()});
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3000, 37}});
  graph.mark_output("rows", sum(x, {0}).value());
  graph.mark_output("columns", sum(transpose(x), {1}).value());
  graph.mark_output("all", mean(x, {0, 1}).value());
  InterpreterInputs inputs{{"x", std::vector<double>(3000 * 37, static_cast<float>(0.1))}};
  const auto got = testing::run_eager(graph, inputs, device);
  for (double value : got.at("rows")) EXPECT_NEAR(value, 300, 300 * 4e-6);
  for (double value : got.at("columns")) EXPECT_NEAR(value, 300, 300 * 4e-6);
  EXPECT_NEAR(got.at("all")[0], 0.1, 0.1 * 4e-6);
}

TEST_P(EagerAgainstOracle, ExtremeArgumentsFollowIeee) {
  CpuDevice device({.threads = 1, .isa = GetParam()});
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {7}});
  graph.mark_output("exp", exp(x).value());
  graph.mark_output("sigmoid", sigmoid(x).value());
  graph.mark_output("tanh", tanh(x).value());
  graph.mark_output("gelu_tanh", gelu_tanh(x).value());
  graph.mark_output("softmax", softmax(x).value());
  const double infinity = std::numeric_limits<double>::infinity();
  const auto got =
      testing::run_eager(graph, {{"x", {-infinity, -1e4, -87, 0, 87, 1e4, 88}}}, device);
  EXPECT_EQ(got.at("exp")[0], 0);
  EXPECT_EQ(got.at("exp")[1], 0);
  EXPECT_NEAR(got.at("exp")[4] / std::exp(87), 1, 1e-5);
  EXPECT_EQ(got.at("exp")[5], infinity);
  EXPECT_EQ(got.at("sigmoid")[0], 0);
  EXPECT_EQ(got.at("sigmoid")[3], 0.5);
  EXPECT_EQ(got.at("sigmoid")[5], 1);
  EXPECT_NEAR(got.at("tanh")[1], -1, 1e-6);
  EXPECT_NEAR(got.at("tanh")[5], 1, 1e-6);
  EXPECT_EQ(got.at("gelu_tanh")[0], 0);
  EXPECT_NEAR(got.at("gelu_tanh")[1], 0, 1e-2);  // of -1e4: a rounding of tanh counts that often
  EXPECT_EQ(got.at("gelu_tanh")[3], 0);
  EXPECT_NEAR(got.at("gelu_tanh")[5], 1e4, 1e-2);
  EXPECT_EQ(got.at("softmax")[5], 1);
  EXPECT_EQ(got.at("softmax")[0], 0);
}

INSTANTIATE_TEST_SUITE_P(AllInstructionSets, EagerAgainstOracle,
                         ::testing::ValuesIn(supported_isas()), [](const auto& param_info) {
                           return std::string(name(param_info.param));
                         });

TEST(EagerExecutor, ResultsAreEqualFromRunToRun) {
  CpuDevice device({.threads = 5});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
    EXPECT_EQ(testing::run_eager(made.graph, made.inputs, device),
              testing::run_eager(made.graph, made.inputs, device));
  }
}

// A library without locks hands the same scratch to two threads; then products of a batch mix.
TEST(EagerExecutor, ProductsOnSeveralThreadsDoNotDisturbEachOther) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {64, 9, 70}});
  graph.mark_output("product", matmul(a, transpose(a)).value());
  InterpreterInputs inputs;
  for (int i = 0; i < 64 * 9 * 70; ++i) inputs["a"].push_back(static_cast<float>(std::sin(i)));
  CpuDevice one({.threads = 1});
  CpuDevice many({.threads = 4});
  const auto expected = testing::run_eager(graph, inputs, one);
  for (int round = 0; round < 200; ++round)
    ASSERT_EQ(testing::run_eager(graph, inputs, many), expected) << "round " << round;
}

TEST(EagerExecutor, AnOutputThatWasNotComputedIsAnError) {
  const Graph graph = attention_training_graph({.batch_size = 1, .seq_len = 4, .head_dim = 2});
  const Schedule schedule = eager_schedule(graph);
  CpuDevice device({.threads = 1});
  EagerExecutor executor(graph, schedule, device);
  executor.run_stage(0);
  EXPECT_NO_THROW(executor.output("output"));
  EXPECT_THROW(executor.output("d_q"), Error);
  EXPECT_THROW(executor.output("no such thing"), Error);
  EXPECT_THROW(executor.input("no such thing"), Error);
}

}  // namespace
}  // namespace ridgeline::eager_executor_test

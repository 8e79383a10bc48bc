// Attention with any pointwise function of its scores: the kernels against the fp64 interpreter,
// which computes the same without an attention node.
#include <gtest/gtest.h>

#include <cmath>

#include "passes/flash.h"
#include "support/from_environment.h"
#include "support/gpu.h"
#include "support/random_attention.h"
#include "support/run_eager.h"

namespace ridgeline::score_function_test {
namespace {

using testing::first_seed;
using testing::graphs_wanted;

// Of the largest element. Weights and gradients of scores are rounded to the dtype in between.
double tolerance(DType dtype) {
  return dtype == DType::f32 ? 3e-5 : dtype == DType::bf16 ? 4e-2 : 6e-3;
}

using Make = testing::RandomGraph (testing::RandomAttentionMaker::*)();

void expect_right(uint64_t seed, DType dtype, Make make, BackwardAlgorithm backward,
                  Device& device) {
  testing::RandomAttentionMaker maker(seed, dtype);
  const testing::RandomGraph made = (maker.*make)();
  FlashReport report;
  const Graph fused =
      testing::with_attention_gradients(flash(made.graph, {.backward = backward}, &report));
  ASSERT_EQ(report.refusals.size(), 0u) << report.refusals[0].reason;
  const Graph plain = testing::with_attention_gradients(made.graph);
  // A softmax over nothing is no number, and the output of such a query 0.
  const bool sees_nothing = make == &testing::RandomAttentionMaker::make_documents;
  const Graph& defined = sees_nothing ? fused : plain;
  const auto expected = interpret(defined, made.inputs);
  const Shape& k = plain.type(plain.inputs()[1]).shape;
  const Shape& q = plain.type(plain.inputs()[0]).shape;
  const auto scores = static_cast<double>(q[0] * q[1] * q[2] * k[2]);
  const auto got = testing::run_eager(fused, made.inputs, device);
  for (const Output& output : defined.outputs()) {
    const std::vector<double>& reference = expected[defined.index(output.value)];
    const std::vector<double>& values = got.at(output.name);
    ASSERT_EQ(values.size(), reference.size());
    const double unit = std::max(tolerance(dtype), info(defined.type(output.value).dtype).epsilon);
    // Where gradients cancel, what is left is rounding: in 16 bits that of `output`, by which all
    // gradients of a row are shifted alike.
    const double rows = scores / static_cast<double>(k[2]) / static_cast<double>(values.size());
    double largest = (dtype == DType::f32 ? 1 : 3) * std::max(1.0, std::sqrt(rows));
    for (double value : reference) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], reference[i], unit * largest)
          << output.name << "[" << i << "], seed " << seed << "\n"
          << to_text(fused);
  }
}

void expect_all_right(Device& device, uint64_t cases,
                      Make make = &testing::RandomAttentionMaker::make) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (uint64_t seed = first_seed(); seed < first_seed() + cases; ++seed) {
      const auto backward =
          seed % 2 == 0 ? BackwardAlgorithm::single_pass : BackwardAlgorithm::two_pass;
      expect_right(seed, dtype, make, backward, device);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

class ScoreFunctionOnCpu : public ::testing::TestWithParam<Isa> {};

TEST_P(ScoreFunctionOnCpu, RandomFunctionsForwardAndBackward) {
  CpuDevice device({.threads = 3, .isa = GetParam()});
  expect_all_right(device, graphs_wanted(12));
}

TEST(ScoreFunction, RandomDocumentsOnCpu) {
  CpuDevice device({.threads = 3});
  expect_all_right(device, graphs_wanted(1), &testing::RandomAttentionMaker::make_documents);
}

TEST_P(ScoreFunctionOnCpu, DerivativesThatAreNoNumberAtPaddingStayThere) {
  CpuDevice device({.threads = 1, .isa = GetParam()});
  expect_all_right(device, 2, &testing::RandomAttentionMaker::make_root_of_square);
}

INSTANTIATE_TEST_SUITE_P(All, ScoreFunctionOnCpu, ::testing::ValuesIn(supported_isas()),
                         [](const auto& param_info) {
                           return std::string(name(param_info.param));
                         });

TEST(ScoreFunctionOnGpu, RandomFunctionsForwardAndBackward) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_all_right(device, graphs_wanted(12));
}

// Tiles that are all hidden are left out, by kernels that know it.
TEST(ScoreFunctionOnGpu, RandomDocumentsForwardAndBackward) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_all_right(device, graphs_wanted(4), &testing::RandomAttentionMaker::make_documents);
}

// The sums of operands have one order, whatever the number of threads.
TEST(ScoreFunction, GradientsOfOperandsAreTheSameForAnyNumberOfThreads) {
  CpuDevice one({.threads = 1}), three({.threads = 3});
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const testing::RandomGraph made = testing::RandomAttentionMaker(seed).make();
    const Graph fused = testing::with_attention_gradients(flash(made.graph));
    EXPECT_EQ(testing::run_eager(fused, made.inputs, one),
              testing::run_eager(fused, made.inputs, three));
  }
}

}  // namespace
}  // namespace ridgeline::score_function_test

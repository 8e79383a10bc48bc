// Which values are computed again where a plan would not fit.
#include "plan/recompute.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"

namespace ridgeline {
namespace {

// Each link of the chain reads the one before it twice: walking every path would take 2^40 steps.
TEST(RecomputePlan, WalksValuesThatAreReadTwiceOnce) {
  constexpr int kLinks = 40;
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {64, 64}});
  Tensor chain = x;
  for (int i = 0; i < kLinks; ++i) chain = chain * chain;
  graph.mark_output("forward", sum(chain, {1}).value());
  const Tensor wide = softmax(input(graph, "wide", {DType::f32, {64, 4096}}));  // needs memory
  graph.mark_output("wide", sum(wide, {1}).value());
  graph.begin_stage("backward");
  graph.mark_output("backward", matmul(chain, x).value());
  const Plan whole = make_plan(graph);
  const FittedPlan fitted = plan_within(graph, {}, Bytes{1});
  ASSERT_TRUE(fitted.graph);
  EXPECT_GT(fitted.recomputed, 0u);
  EXPECT_LT(fitted.plan.peak(), whole.peak());
}

}  // namespace
}  // namespace ridgeline

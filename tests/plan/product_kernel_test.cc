// Which products go into the kernel behind them, and what such a kernel reads and writes.
#include "plan/product_kernel.h"

#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "graph/tensor.h"
#include "plan/plan.h"

namespace ridgeline {
namespace {

const PlanOptions kMultiplyInside = {
    .product_kernel = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
      return EpilogueDecision{.takes = true};
    }};

constexpr int64_t kTokens = 256, kWidth = 320, kModel = 192;

Tensor wide(const Tensor& x) {
  return cast(x, DType::f32);
}

// y = x W', both halves of whose columns are read together.
struct GatedUnit {
  GatedUnit() {
    x = input(graph, "x", {DType::bf16, {kTokens, kModel}});
    weights = input(graph, "w", {DType::bf16, {2 * kWidth, kModel}});
    product = matmul(x, transpose(weights));
    gate = slice(product, 1, 0, kWidth);
    up = slice(product, 1, kWidth, 2 * kWidth);
  }
  Tensor result() const { return cast(silu(wide(gate)) * wide(up), DType::bf16); }
  Plan plan(const Tensor& of) {
    graph.mark_output("y", of.value());
    return make_plan(graph, kMultiplyInside);
  }

  Graph graph;
  Tensor x, weights, product, gate, up;
};

TEST(ProductKernel, AGatedUnitIsOneKernel) {
  GatedUnit unit;
  const Plan plan = unit.plan(unit.result());
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(unit.graph, plan);
  const FusedKernel& kernel = plan.kernels[0].group.kernel;
  ASSERT_TRUE(kernel.product);
  EXPECT_EQ(kernel.results.size(), 1u);
  EXPECT_EQ(paired_column(kernel), kWidth);
  EXPECT_TRUE(kernel.product->left.is_deep);
  EXPECT_TRUE(kernel.product->right.is_deep);
  EXPECT_EQ(plan.kernels[0].group.reads,
            (std::vector<Value>{unit.x.value(), unit.weights.value()}));
  EXPECT_EQ(plan.kernels[0].cost.macs, double{kTokens} * 2 * kWidth * kModel);
}

// Without its operands, which both forms read.
TEST(ProductKernel, TheOfferSaysHowManyBytesEachFormMoves) {
  GatedUnit unit;
  const Plan plan = unit.plan(unit.result());
  ASSERT_EQ(plan.epilogues.size(), 1u);
  ASSERT_TRUE(plan.epilogues[0].offer);
  const EpilogueOffer& offer = *plan.epilogues[0].offer;
  const double result = 2.0 * kTokens * kWidth, product = 2 * result;
  EXPECT_EQ(offer.split_bytes, 2 * product + result);  // the product is written and read
  EXPECT_EQ(offer.fused_bytes, result);
}

TEST(ProductKernel, WritesTheProductForOthers) {
  GatedUnit unit;
  unit.graph.mark_output("product", unit.product.value());
  const Plan plan = unit.plan(unit.result());
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(unit.graph, plan);
  EXPECT_EQ(plan.kernels[0].group.kernel.results.size(), 3u);  // and both halves of the product
  EXPECT_EQ(plan.kernels[0].group.writes.size(), 2u);
}

}  // namespace
}  // namespace ridgeline

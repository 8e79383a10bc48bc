// Which products an update computes itself, and what it reads and writes then.
#include "plan/update_products.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"
#include "plan/plan.h"

namespace ridgeline::update_products_test {
namespace {

constexpr int64_t kTokens = 256, kRows = 320, kColumns = 192;

const PlanOptions kMultiplyInside = {
    .update_products = [](std::span<const ProductSize>) { return true; },
    .overlap = true,
    .early_updates = true};

// A layer's weights, whose gradient is d_y' x, and a bias, whose gradient is an input.
struct Training {
  explicit Training(DType gradient_dtype = DType::bf16) {
    x = input(graph, "x", {gradient_dtype, {kTokens, kColumns}});
    d_y = input(graph, "d_y", {gradient_dtype, {kTokens, kRows}});
    gradient = matmul(transpose(d_y), x);
    const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
    const Tensor d_bias = input(graph, "d_bias", {gradient_dtype, {kRows}});
    const std::vector<AdamWTensors> tensors = {parameter("w", {kRows, kColumns}, gradient),
                                               parameter("bias", {kRows}, d_bias)};
    updated = adamw_update(tensors, scalars, {}, {});
  }
  AdamWTensors parameter(const std::string& name, const Shape& shape, const Tensor& of) {
    return {.parameter = input(graph, name, {DType::f32, shape}),
            .gradient = of,
            .first_moment = input(graph, "m." + name, {DType::f32, shape}),
            .second_moment = input(graph, "v." + name, {DType::f32, shape}),
            .copy = input(graph, "16bit." + name, {DType::bf16, shape})};
  }
  Plan plan(const PlanOptions& options = kMultiplyInside) {
    graph.mark_output("w", updated[0].parameter.value());
    return make_plan(graph, options);
  }

  Graph graph;
  Tensor x, d_y, gradient;
  std::vector<AdamWTensors> updated;
};

bool has(const std::vector<Value>& values, const Tensor& of) {
  return std::ranges::find(values, of.value()) != values.end();
}

TEST(UpdateProducts, AGradientThatOnlyTheUpdateReadsIsComputedThere) {
  Training training;
  const Plan apart = training.plan({}), plan = training.plan();
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(training.graph, plan);
  const PlannedKernel& update = plan.kernels[0];
  EXPECT_EQ(update.group.products,
            (std::vector<uint32_t>{training.gradient.value().node, Group::kNoProduct}));
  EXPECT_TRUE(has(update.group.reads, training.x) && has(update.group.reads, training.d_y));
  EXPECT_FALSE(has(update.group.reads, training.gradient));
  EXPECT_EQ(plan.arena.count, 0);
  EXPECT_EQ(apart.kernels.size(), 2u);
  EXPECT_EQ(update.cost.macs, double{kTokens} * kRows * kColumns);
  EXPECT_EQ(apart.total().bytes - update.cost.bytes, 2.0 * kRows * kColumns * 2);
}

TEST(UpdateProducts, TheNodeThatRunsHasBothMatrices) {
  Training training;
  const Plan plan = training.plan();
  const Node node = update_node(training.graph, plan.kernels[0].group);
  const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
  EXPECT_TRUE(spec.is_product(0));
  EXPECT_FALSE(spec.is_product(1));
  const Node& product = training.graph.nodes()[training.gradient.value().node];
  EXPECT_EQ(node.inputs[spec.first_parameter() + 2], product.inputs[0]);
  ASSERT_EQ(spec.right_matrix(0, 2) + 1, node.inputs.size());
  EXPECT_EQ(node.inputs.back(), product.inputs[1]);
}

TEST(UpdateProducts, AGradientThatOthersReadStaysAProduct) {
  Training training;
  training.graph.mark_output("d_w", training.gradient.value());
  EXPECT_EQ(training.plan().kernels.size(), 2u);
}

// Kernels behind a product that is gone have smaller numbers, by which the plan explains itself.
TEST(UpdateProducts, RefusalsNameTheKernelsThatAreLeft) {
  Training training;
  const Tensor z = input(training.graph, "z", {DType::f32, {kTokens, kColumns}});
  const Tensor by_rows = sum(z, {1});
  training.graph.mark_output("rows", by_rows.value());
  training.graph.mark_output("columns", sum(z, {0}).value());
  const Plan plan = training.plan();
  ASSERT_EQ(plan.refusals.size(), 1u) << explain(training.graph, plan);
  const RefusalNote& note = plan.refusals[0];
  ASSERT_LT(note.group, plan.kernels.size());
  EXPECT_TRUE(has(plan.kernels[note.group].group.writes, by_rows));
}

TEST(UpdateProducts, WideGradientsStayProducts) {
  Training training(DType::f32);
  EXPECT_EQ(training.plan().kernels.size(), 2u);
}

TEST(UpdateProducts, TheDeviceDecidesBySizes) {
  Training training;
  std::vector<ProductSize> asked;
  const PlanOptions never = {.update_products = [&](std::span<const ProductSize> products) {
    asked.assign(products.begin(), products.end());
    return false;
  }};
  EXPECT_EQ(training.plan(never).kernels.size(), 2u);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].rows, kRows);
  EXPECT_EQ(asked[0].columns, kColumns);
  EXPECT_EQ(asked[0].depth, kTokens);
}

}  // namespace
}  // namespace ridgeline::update_products_test

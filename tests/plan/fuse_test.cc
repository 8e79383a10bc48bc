#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "autodiff/gradient.h"
#include "models/attention.h"
#include "models/layers.h"
#include "passes/flash.h"
#include "plan/plan.h"
#include "support/expect.h"
#include "support/models.h"

namespace ridgeline {
namespace {

size_t count(const Plan& plan, GroupKind kind) {
  return static_cast<size_t>(
      std::count_if(plan.kernels.begin(), plan.kernels.end(),
                    [&](const PlannedKernel& kernel) { return kernel.group.kind == kind; }));
}

Tensor rms_norm(const Tensor& x, const Tensor& weight) {
  const Tensor wide = cast(x, DType::f32);
  const Tensor scale = rsqrt(mean(wide * wide, {-1}) + 1e-5);
  return cast(wide * scale * weight, x.dtype());
}

// Softmax in steps, as `decompose` leaves it.
Tensor plain_softmax(const Tensor& x) {
  const Tensor weights = exp(x - max(x, {-1}));
  return weights / sum(weights, {-1});
}

struct Block {
  Graph graph;
  Tensor x, weight, w1, w2, w3, y;
};

// x + w2 (silu(w1 n) * w3 n), n = norm(x).
void build_block(Block& block, DType dtype) {
  Graph& graph = block.graph;
  block.x = input(graph, "x", {dtype, {128, 64}});
  block.weight = input(graph, "weight", {DType::f32, {64}});
  block.w1 = input(graph, "w1", {dtype, {64, 128}});
  block.w3 = input(graph, "w3", {dtype, {64, 128}});
  block.w2 = input(graph, "w2", {dtype, {128, 64}});
  const Tensor n = rms_norm(block.x, block.weight);
  const Tensor hidden = silu(matmul(n, block.w1)) * matmul(n, block.w3);
  block.y = block.x + matmul(hidden, block.w2);
  graph.mark_output("y", block.y.value());
}

TEST(Fuse, ANormIsOneKernelThatReadsItsInputOnce) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {8, 16, 64}});
  const Tensor weight = input(graph, "weight", {DType::f32, {64}});
  graph.mark_output("y", rms_norm(x, weight).value());
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(graph, plan);
  EXPECT_EQ(plan.kernels[0].cost.bytes, 2 * 8 * 16 * 64 * 2 + 64 * 4);
  EXPECT_EQ(plan.eager_launches, 8u);
}

TEST(Fuse, AKernelCountsTheFlopsOfItsNodes) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {64, 32}});
  const Tensor y = where(less(x, scalar(x, 0)), sigmoid(x), gelu_tanh(x) * x);
  graph.mark_output("y", sum(cast(y, DType::bf16) * 2.0, {-1}).value());
  double flops = 0;
  for (const Cost& cost : node_costs(graph)) flops += cost.flops;
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.kernels.size(), 1u);
  EXPECT_EQ(plan.total().flops, flops);
  EXPECT_EQ(flops, 64 * 32 * (1 + 3 + 8 + 1 + 1 + 1));
}

TEST(Fuse, AttentionIsTwoProductsAndOneRowKernel) {
  Graph graph;
  const TensorType type{DType::f32, {6, 32, 16}};
  const Tensor q = input(graph, "q", type), k = input(graph, "k", type),
               v = input(graph, "v", type);
  const Tensor scores = matmul(q, transpose(k)) * 0.25;
  const Tensor rows = reshape(iota(graph, 32), {32, 1});
  const Tensor masked = where(less_equal(iota(graph, 32), rows), scores, scalar(scores, -1e30));
  graph.mark_output("y", matmul(plain_softmax(masked), v).value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(count(plan, GroupKind::library), 2u) << explain(graph, plan);
  EXPECT_EQ(count(plan, GroupKind::row), 1u) << explain(graph, plan);
}

TEST(Fuse, ABlockIsThreeProductsAndThreeKernels) {
  Block block;
  build_block(block, DType::bf16);
  const Plan plan = make_plan(block.graph);
  EXPECT_EQ(count(plan, GroupKind::library), 3u) << explain(block.graph, plan);
  EXPECT_EQ(count(plan, GroupKind::row), 3u) << explain(block.graph, plan);
}

// Backward: nine products in all; gate gradients together, the norm's gradient with the residual,
// its weight's gradient by columns.
TEST(Fuse, ABlockWithItsGradientTakesFewKernels) {
  Block block;
  build_block(block, DType::bf16);
  Graph& graph = block.graph;
  const Tensor d_y = input(graph, "d_y", block.y.type());
  graph.begin_stage("backward");
  const Cotangent cotangent{block.y, d_y};
  const std::vector<Tensor> sources = {block.x, block.weight, block.w1, block.w2, block.w3};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  for (size_t i = 0; i < gradients.size(); ++i)
    graph.mark_output("d" + std::to_string(i), gradients[i].value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(count(plan, GroupKind::library), 9u) << explain(graph, plan);
  EXPECT_EQ(count(plan, GroupKind::column), 1u) << explain(graph, plan);
  EXPECT_EQ(count(plan, GroupKind::row), 5u) << explain(graph, plan);
  EXPECT_LT(plan.kernels.size(), plan.eager_launches / 2);
}

TEST(Fuse, ACheapValueIsComputedAgainInsteadOfKept) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {32, 64}});
  const Tensor w = input(graph, "w", {DType::f32, {64, 64}});
  const Tensor gate = silu(a);
  const Tensor y = matmul(gate * a, w);
  graph.mark_output("y", y.value());
  graph.begin_stage("backward");
  graph.mark_output("z", (y * gate).value());
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.kernels.size(), 3u) << explain(graph, plan);
  EXPECT_EQ(plan.kernels[0].group.writes.size(), 1u);  // the gate is not among them
}

// Rotary positions: both halves of each pair are written where they belong.
TEST(Fuse, PartsOfAConcatenationAreWrittenInPlace) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 3, 8, 16}});
  const TensorType table{DType::f32, {8, 8}};
  const RopeTables tables{input(graph, "cos", table), input(graph, "sin", table)};
  graph.mark_output("y", rope(x, tables).value());
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(graph, plan);
  EXPECT_EQ(plan.kernels[0].cost.bytes, (2 * 2 * 3 * 8 * 16 + 2 * 8 * 8) * 4);
}

// A part of a concatenation that is one itself is written by its own kernel, or copied, where what
// is around it cannot be written in place: here since a product is.
TEST(Fuse, AConcatenationInsideAnotherCanStandAlone) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 6}});
  const std::array halves = {sin(x), cos(x)};
  const Tensor turned = reshape(transpose(concat(halves, 1)), {8, 6});
  const std::array parts = {turned, matmul(transpose(x), x)};
  graph.mark_output("y", concat(parts, 0).value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(count(plan, GroupKind::library), 2u) << explain(graph, plan);  // product and copy
}

// Attention with heads of 258 stays a formula, whose gradient moves heads through concatenations.
TEST(Fuse, AModelWhoseAttentionFlashRefusesHasAPlan) {
  for (Scenario scenario : {Scenario::forward, Scenario::forward_backward, Scenario::full_step})
    for (int64_t heads : {1, 2, 3}) {
      const Lowered made = testing::lowered_model({.config = {.d_model = 258 * heads,
                                                              .d_ff = 8,
                                                              .layers = 2,
                                                              .heads = heads,
                                                              .vocabulary = 16,
                                                              .batch_size = 2,
                                                              .context_length = 4},
                                                   .mode = Mode::compiled},
                                                  scenario);
      EXPECT_EQ(made.flash.refusals.size(), 2u);
      EXPECT_NO_THROW(make_plan(made.graph)) << heads;
    }
}

// A reshape that copies has one element for each row of a kernel that reads the same tensor.
TEST(Fuse, ACopyOfAColumnJoinsTheKernelOfItsRows) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 2, 3}});
  graph.mark_output("rows", sum(x, {-1}).value());
  graph.mark_output("column", reshape(permute(slice(x, 2, 0, 1), {1, 0, 2}), {4}).value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(plan.kernels.size(), 1u) << explain(graph, plan);
}

TEST(Fuse, ACopyOfAConstantIsWritten) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3, 1}});
  const Tensor ones = sum(expand(scalar(x, 1), {3, 1}), {1});
  graph.mark_output("y", matmul(transpose(x), ones).value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(plan.kernels.size(), 2u) << explain(graph, plan);
}

// More operands than a kernel takes, though the expression is short enough to wait.
TEST(Fuse, AnExpressionOfTooManyOperandsIsCut) {
  for (int choices = 15; choices < 24; ++choices) {
    Graph graph;
    const TensorType type{DType::f32, {8}};
    const auto given = [&](const std::string& name, int i) {
      return input(graph, name + std::to_string(i), type);
    };
    Tensor y = given("x", 0);
    for (int i = 0; i < choices; ++i)
      y = where(input(graph, "which" + std::to_string(i), {DType::boolean, {8}}), given("yes", i),
                y);
    graph.mark_output("y", where(less(y, given("x", 1)), given("x", 2), given("x", 3)).value());
    Plan plan;
    ASSERT_NO_THROW(plan = make_plan(graph)) << choices;
    for (const PlannedKernel& kernel : plan.kernels) EXPECT_LE(kernel.group.reads.size(), 40u);
  }
}

// Kernels write head tensors through strides, into concatenations too; what they give for each row
// or tile is contiguous.
TEST(Fuse, OnlyHeadTensorsOfAttentionLieOtherwise) {
  Graph graph;
  const TensorType type{DType::f32, {2, 3, 5, 4}};
  const Tensor q = input(graph, "q", type), k = input(graph, "k", type);
  const AttentionResult first = attention(q, k, k, {}), second = attention(k, q, q, {});
  const std::array sums = {first.log_sum_exp, second.log_sum_exp};
  const std::array heads = {first.output, second.output};
  graph.mark_output("sums", concat(sums, 2).value());
  graph.mark_output("heads", concat(heads, 3).value());
  const Plan plan = make_plan(graph);
  for (const AttentionResult& result : {first, second}) {
    const Layout& of_sums = plan.layouts[graph.index(result.log_sum_exp.value())];
    EXPECT_EQ(of_sums.storage, result.log_sum_exp.value());
    EXPECT_EQ(of_sums.strides, contiguous_strides({2, 3, 5}));
    EXPECT_EQ(plan.layouts[graph.index(result.output.value())].strides,
              contiguous_strides({2, 3, 5, 8}));
  }
}

// Sums of gradients of operands have four axes as well.
TEST(Fuse, SumsBesideAttentionAreContiguous) {
  Graph graph;
  const TensorType type{DType::f32, {2, 3, 5, 4}};
  const Tensor q = input(graph, "q", type), bias = input(graph, "bias", {DType::f32, {1, 3, 5, 5}});
  const Tensor scores = matmul(q, transpose(sin(q))) * 0.5 + bias;
  graph.mark_output("y", matmul(softmax(scores), q).value());
  graph = flash(graph);
  const Tensor y(graph, graph.outputs()[0].value);
  const auto inputs = graph.inputs();
  const Cotangent cotangent{y, expand(scalar(y, 1), y.shape())};
  const std::array sources = {Tensor(graph, inputs[0]), Tensor(graph, inputs[1])};
  for (const Tensor& each : gradient({&cotangent, 1}, sources))
    graph.mark_output("d" + std::to_string(graph.outputs().size()), each.value());
  const std::vector<Layout> all = layouts(graph, {.token_major = true});
  int found = 0;
  for (const Node& node : graph.nodes())
    for (uint32_t output = 3; node.op == Op::attention_gradient && output < node.outputs.size();
         ++output, ++found)
      EXPECT_EQ(all[node.first_value + output].strides,
                contiguous_strides(node.outputs[output].shape));
  EXPECT_EQ(found, 1) << to_text(graph);
}

TEST(Fuse, AProductThatIsWantedInFp32WritesFp32) {
  const auto kernels = [](auto result_of) {
    Graph graph;
    const Tensor a = input(graph, "a", {DType::bf16, {16, 8}});
    const Tensor b = input(graph, "b", {DType::bf16, {8, 24}});
    const Tensor product = matmul(a, b);
    graph.mark_output("y", result_of(product).value());
    return make_plan(graph).kernels;
  };
  const auto widened = kernels([](const Tensor& product) { return cast(product, DType::f32); });
  ASSERT_EQ(widened.size(), 1u);
  EXPECT_TRUE(widened[0].group.into.has_value());
  EXPECT_EQ(widened[0].cost.bytes, 2 * (16 * 8 + 8 * 24) + 4 * 16 * 24);
  // Not if somebody sees the 16 bits, or if more is done than to widen them.
  EXPECT_EQ(kernels([](const Tensor& product) {
              product.graph().mark_output("product", product.value());
              return cast(product, DType::f32);
            }).size(),
            2u);
  EXPECT_EQ(kernels([](const Tensor& product) { return cast(product, DType::f32) * 2; }).size(),
            2u);
}

TEST(Fuse, AnIntermediateThatReadsALotIsKept) {
  Graph graph;
  const TensorType type{DType::f32, {32, 64}};
  Tensor total = input(graph, "x0", type);
  for (int i = 1; i < 6; ++i) total = total + input(graph, "x" + std::to_string(i), type);
  const Tensor w = input(graph, "w", {DType::f32, {64, 64}});
  const Tensor y = matmul(total, w);
  graph.mark_output("z", (y + total).value());
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.kernels.size(), 3u) << explain(graph, plan);
  EXPECT_EQ(plan.kernels[2].group.reads.size(), 2u);  // y and total, not six inputs
}

TEST(Fuse, AnOutputIsThereWhenItsStageHasRun) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {8, 8}});
  const Tensor y = sin(x);
  graph.mark_output("y", y.value());
  graph.begin_stage("backward");
  graph.mark_output("z", cos(y).value());
  const Plan plan = make_plan(graph);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].end, 1u);
  EXPECT_EQ(plan.kernels.size(), 2u);
  bool says_why = false;
  for (const RefusalNote& note : plan.refusals)
    says_why = says_why || note.why == FusionRefusal::different_stage;
  EXPECT_TRUE(says_why);
}

// What reads a parameter runs before the update that overwrites it, even if its reader comes later.
TEST(Fuse, NothingReadsAParameterAfterItsUpdate) {
  Graph graph;
  const TensorType type{DType::f32, {16}};
  const Tensor p = input(graph, "p", type);
  const Tensor half = p * 0.5;
  const AdamWTensors tensors{p, input(graph, "g", type), input(graph, "m", type),
                             input(graph, "v", type)};
  const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
  const auto updated = adamw_update({&tensors, 1}, scalars, {}, {});
  graph.mark_output("old", sin(half + updated[0].first_moment).value());
  graph.mark_output("new", updated[0].parameter.value());
  const Plan plan = make_plan(graph);
  bool is_updated = false;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.group.kind == GroupKind::library) is_updated = true;
    if (kernel.group.kind == GroupKind::library || !is_updated) continue;
    for (const FusedOperand& operand : kernel.group.kernel.inputs)
      EXPECT_NE(operand.storage, p.value()) << explain(graph, plan);
  }
  EXPECT_TRUE(is_updated);
}

TEST(Fuse, ExplainNamesKernelsBytesAndRefusals) {
  Block block;
  build_block(block, DType::f32);
  const Plan plan = make_plan(block.graph);
  const std::string text = explain(block.graph, plan);
  for (const char* part : {"kernels instead of", "rows_", "matmul", "reads ", "writes ", "memory: ",
                           "not fused", "a library call is no generated kernel", "FLOP"})
    EXPECT_HAS(text, part);
}

// Thirty times the layers take about thirty times as long.
TEST(Fuse, PlanningTimeGrowsLinearlyWithNodes) {
  const auto seconds = [](int layers) {
    Graph graph;
    Tensor x = input(graph, "x", {DType::bf16, {4, 32, 64}});
    const Tensor weight = input(graph, "weight", {DType::f32, {64}});
    const Tensor w = input(graph, "w", {DType::bf16, {64, 64}});
    for (int layer = 0; layer < layers; ++layer)
      x = x + tanh(matmul(rms_norm(x, weight) * (1.0 + layer), w));
    graph.mark_output("y", x.value());
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
      const std::clock_t start = std::clock();  // of this process alone: others may be at work
      make_plan(graph);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double few = seconds(10);
  EXPECT_LT(seconds(300), 30 * few * 4);
}

}  // namespace
}  // namespace ridgeline

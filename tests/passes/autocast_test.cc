#include "passes/autocast.h"

#include <gtest/gtest.h>

#include <array>

#include "autodiff/gradient.h"
#include "models/attention.h"
#include "passes/same_values.h"
#include "passes/small_transformer.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

using testing::count_of;
using testing::expect_same_values;
using testing::kTiny;
using testing::output_of;
using testing::random_inputs;

// Attention, then a two-layer perceptron, a residual stream around both, and a loss.
Graph small_model() {
  Graph graph;
  const TensorType square{DType::f32, {8, 8}};
  const Tensor x = input(graph, "x", {DType::f32, {6, 8}});
  const Tensor target = input(graph, "target", {DType::f32, {6, 8}});
  const auto project = [&](const char* name) {
    return matmul(x, transpose(input(graph, name, square)));
  };
  const Tensor mixed = plain_attention(project("q"), project("k"), project("v"), true);
  const Tensor stream = (x + mixed).named("stream");
  const Tensor hidden = silu(matmul(stream, transpose(input(graph, "w1", {DType::f32, {12, 8}}))));
  const Tensor fed = matmul(hidden, transpose(input(graph, "w2", {DType::f32, {8, 12}})));
  const Tensor out = (stream + fed).named("out");
  const Tensor error = out - target;
  graph.mark_output("loss", mean(error * error, {0, 1}).value());
  return graph;
}

const Node& node_named(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes())
    if (node.name == name) return node;
  ADD_FAILURE() << "no node " << name;
  return graph.nodes()[0];
}

void add_gradients(Graph& graph) {
  graph.begin_stage("backward");
  const Tensor loss(graph, output_of(graph, "loss"));
  const Cotangent cotangent{loss, expand(scalar(loss, 1), loss.shape())};
  std::vector<Tensor> weights;
  for (Value value : graph.inputs())
    if (graph.type(value).dtype == DType::f32) weights.emplace_back(graph, value);
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, weights);
  for (size_t i = 0; i < weights.size(); ++i)
    graph.mark_output("d_" + graph.node(weights[i].value()).name, gradients[i].value());
}

TEST(Autocast, ProductsRunInBf16AndTheResidualStreamInFp32) {
  const Graph graph = autocast(small_model());
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::matmul || node.op == Op::silu) {
      EXPECT_EQ(node.outputs[0].dtype, DType::bf16) << to_text(graph);
    }
    if (node.op == Op::softmax || node.op == Op::mean) {
      EXPECT_EQ(node.outputs[0].dtype, DType::f32) << to_text(graph);
    }
  }
  for (const char* name : {"stream", "out"})
    EXPECT_EQ(node_named(graph, name).outputs[0].dtype, DType::f32) << name;
  // As PyTorch: a factor and a mask do not widen the scores.
  for (const char* name : {"scores", "scaled_scores", "masked_scores"})
    EXPECT_EQ(node_named(graph, name).outputs[0].dtype, DType::bf16) << name;
  EXPECT_EQ(graph.type(output_of(graph, "loss")).dtype, DType::f32);
}

// The stream is read by three projections but cast once; a cast weight lies as the weight does.
TEST(Autocast, EveryValueIsCastOnceAndWeightsAsTheyLie) {
  const Graph graph = autocast(small_model());
  std::vector<Value> sources;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::cast || node.outputs[0].dtype != DType::bf16) continue;
    for (Value source : sources) EXPECT_FALSE(source == node.inputs[0]) << to_text(graph);
    sources.push_back(node.inputs[0]);
    EXPECT_NE(graph.node(node.inputs[0]).op, Op::permute) << to_text(graph);
  }
}

TEST(Autocast, GradientsOfFp32WeightsAreFp32AndCloseToThoseOfFp32) {
  Graph wide = small_model();
  Graph mixed = autocast(wide);
  add_gradients(wide);
  add_gradients(mixed);
  verify(mixed);
  int in_bf16 = 0;
  for (const Node& node : mixed.nodes())
    in_bf16 += node.op == Op::matmul && node.outputs[0].dtype == DType::bf16;
  EXPECT_EQ(in_bf16, count_of(mixed, Op::matmul));
  for (const Output& output : mixed.outputs())
    EXPECT_EQ(mixed.type(output.value).dtype, DType::f32) << output.name;
  const InterpreterInputs inputs = random_inputs(wide, 4);
  expect_same_values(wide, mixed, inputs, 1e-12);  // without rounding, casts are nothing
  // With rounding both differ by some roundings to bf16.
  const auto exact = interpret(wide, inputs);
  const auto rounded = interpret(mixed, inputs, {.round_to_dtype = true});
  for (size_t i = 0; i < wide.outputs().size(); ++i) {
    const auto& expected = exact[wide.index(wide.outputs()[i].value)];
    const auto& got = rounded[mixed.index(mixed.outputs()[i].value)];
    double error = 0, size = 0;
    for (size_t at = 0; at < expected.size(); ++at) {
      error += (expected[at] - got[at]) * (expected[at] - got[at]);
      size += expected[at] * expected[at];
    }
    EXPECT_LT(std::sqrt(error / size), 4 * info(DType::bf16).epsilon) << wide.outputs()[i].name;
    EXPECT_GT(error, 0) << wide.outputs()[i].name;
  }
}

TEST(Autocast, TransformerHasAnFp32StreamAndBf16Logits) {
  for (AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
    const Graph wide = testing::forward_with_loss(kTiny, form);
    Graph mixed = autocast(wide);
    EXPECT_EQ(mixed.type(output_of(mixed, "logits")).dtype, DType::bf16);
    EXPECT_EQ(mixed.type(output_of(mixed, "loss")).dtype, DType::f32);
    for (const Node& node : mixed.nodes()) {
      if (node.name.ends_with("residual") || node.op == Op::log_softmax || node.op == Op::rsqrt) {
        EXPECT_EQ(node.outputs[0].dtype, DType::f32) << node.name;
      }
      if (node.op == Op::matmul || node.op == Op::attention) {
        EXPECT_EQ(node.outputs[0].dtype, DType::bf16) << node.name;
      }
    }
    // Seven weights a layer and the head.
    int weight_casts = 0;
    for (const Node& node : mixed.nodes())
      weight_casts += node.op == Op::cast && mixed.node(node.inputs[0]).op == Op::input;
    EXPECT_EQ(weight_casts, 7 * kTiny.layers + 1);
    expect_same_values(wide, mixed, random_inputs(wide, 2, kTiny.vocabulary), 1e-12);

    Graph trained = testing::forward_with_loss(kTiny, form);
    add_gradients(trained);
    add_gradients(mixed);
    verify(mixed);
    for (const Output& output : mixed.outputs())
      if (output.name.starts_with("d_")) {
        EXPECT_EQ(mixed.type(output.value).dtype, DType::f32) << output.name;
      }
    expect_same_values(trained, mixed, random_inputs(wide, 2, kTiny.vocabulary), 1e-11);
  }
}

TEST(Autocast, AScalarHasNoSayButAlone) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3, 3}});
  graph.mark_output("product", (matmul(x, x) * 0.3 + 1).named("scaled").value());
  graph.mark_output("constant", expand(scalar(x, 1) + scalar(x, 2), {2}).value());
  const Graph after = autocast(graph);
  EXPECT_EQ(after.type(output_of(after, "product")).dtype, DType::bf16);
  EXPECT_EQ(after.type(output_of(after, "constant")).dtype, DType::f32);
}

TEST(Autocast, NarrowGraphsWidenWhereTheyMust) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f16, {3, 3}});
  graph.mark_output("y", softmax(matmul(x, x)).value());
  const Graph after = autocast(graph);
  EXPECT_EQ(after.type(output_of(after, "y")).dtype, DType::f32);
  EXPECT_EQ(count_of(after, Op::cast), 2);
}

TEST(Autocast, RandomGraphsComputeTheSameButForRounding) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(25);
    expect_same_values(random.graph, autocast(random.graph), random.inputs, 1e-9);
  }
}

}  // namespace
}  // namespace ridgeline

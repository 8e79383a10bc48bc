#include "passes/master_weights.h"

#include <gtest/gtest.h>

#include "passes/same_values.h"

namespace ridgeline {
namespace {

using testing::count_of;
using testing::input_of;
using testing::output_of;
using testing::random_inputs;

std::vector<std::string> input_types(const Graph& graph) {
  std::vector<std::string> result;
  for (Value value : graph.inputs())
    result.push_back(graph.name(value) + " " + to_string(graph.type(value)));
  return result;
}

// y = x W^T in bf16, and with an optimizer a step of W and of a norm's weight g.
Graph step_graph(bool with_update) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {4, 5}});
  const Tensor w = parameter(graph, "w", {DType::f32, {3, 5}}),
               g = parameter(graph, "g", {DType::f32, {3}});
  const Tensor y = matmul(x, transpose(cast(w, DType::bf16)));
  graph.mark_output("y", (cast(y, DType::f32) * g).value());
  if (!with_update) return graph;
  const Tensor d_w = cast(matmul(transpose(y), x), DType::f32);
  const Tensor d_g = reshape(sum(cast(y, DType::f32), {0}), {3});
  const auto moment = [&](const char* name, const Tensor& like) {
    return input(graph, name, like.type());
  };
  const AdamWTensors tensors[] = {{w, d_w, moment("mw", w), moment("vw", w)},
                                  {g, d_g, moment("mg", g), moment("vg", g)}};
  const auto updated = adamw_update(tensors, input(graph, "scalars", {DType::f32, {3}}), {}, {});
  graph.mark_output("w", updated[0].parameter.value());
  graph.mark_output("mw", updated[0].first_moment.value());
  graph.mark_output("g", updated[1].parameter.value());
  return graph;
}

TEST(MasterWeights, WithoutAnOptimizerTheInputItselfIsNarrow) {
  const Graph after = master_weights(step_graph(false));
  EXPECT_EQ(input_types(after),
            (std::vector<std::string>{"x bf16[4, 5]", "w bf16[3, 5]", "g fp32[3]"}));
  EXPECT_EQ(count_of(after, Op::cast), 1);  // of y
}

TEST(MasterWeights, TheUpdateWritesWhatProductsRead) {
  const Graph before = step_graph(true);
  const Graph after = master_weights(before);
  // One update for each dtype of gradients; no cast of w, none of its gradient.
  EXPECT_EQ(count_of(after, Op::adamw_update), 2) << to_text(after);
  EXPECT_EQ(count_of(before, Op::cast), 3);
  EXPECT_EQ(count_of(after, Op::cast), 1);
  InterpreterInputs inputs = random_inputs(before, 4);
  for (const char* name : {"vw", "vg"})
    for (double& value : inputs[name]) value = value * value;
  inputs["scalars"] = {1e-3, 0.1, 0.001};
  for (double value : inputs["w"]) inputs["16bit.w"].push_back(round_to(DType::bf16, value));
  const auto got = interpret(after, inputs);
  const auto rounded = interpret(before, [&] {
    InterpreterInputs exact = inputs;
    exact.erase("16bit.w");
    exact["w"] = inputs["16bit.w"];
    return exact;
  }());
  for (const char* name : {"y"}) {
    const auto& a = rounded[before.index(output_of(before, name))];
    const auto& b = got[after.index(output_of(after, name))];
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << name;
  }
  for (Value value : after.inputs())
    if (after.name(value) == "16bit.w") {
      EXPECT_EQ(after.input_info(value).role, Role::copy);
      EXPECT_EQ(after.input_info(value).parts[0].parameter, "w");
    }
  // The copy follows the weight.
  for (const Node& node : after.nodes()) {
    if (node.op != Op::adamw_update || !std::get<AdamWSpec>(node.attributes.detail).copied)
      continue;
    EXPECT_EQ(got[node.first_value], got[node.first_value + 3]);
    EXPECT_EQ(node.outputs[3].dtype, DType::bf16);
  }
}

TEST(MasterWeights, InputsThatAreNoParametersStay) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {4, 5}}),
               w = input(graph, "w", {DType::f32, {3, 5}});
  graph.mark_output("y", matmul(x, transpose(cast(w, DType::bf16))).value());
  EXPECT_EQ(to_text(master_weights(graph)), to_text(graph));
}

}  // namespace
}  // namespace ridgeline

#include "passes/decompose.h"

#include <gtest/gtest.h>

#include "passes/same_values.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

using testing::count_of;
using testing::expect_same_values;
using testing::random_inputs;

constexpr Op kComposites[] = {Op::softmax,  Op::softmax_gradient,     Op::log_softmax,
                              Op::silu,     Op::log_softmax_gradient, Op::silu_gradient,
                              Op::gelu_tanh};

// Every composite once, of one dtype.
Graph composites(DType dtype) {
  Graph graph;
  const Tensor x = input(graph, "x", {dtype, {2, 3, 7}});
  const Tensor d = input(graph, "d", {dtype, {2, 3, 7}});
  graph.mark_output("softmax", softmax(x).value());
  graph.mark_output("softmax_gradient", softmax_gradient(softmax(x), d).value());
  graph.mark_output("log_softmax", log_softmax(x).value());
  graph.mark_output("log_softmax_gradient", log_softmax_gradient(log_softmax(x), d).value());
  graph.mark_output("silu", silu(x).value());
  graph.mark_output("silu_gradient", silu_gradient(x, d).value());
  graph.mark_output("gelu_tanh", gelu_tanh(x).value());
  return graph;
}

TEST(Decompose, LeavesNoComposite) {
  const Graph after = decompose(composites(DType::f32));
  for (Op op : kComposites) EXPECT_EQ(count_of(after, op), 0) << info(op).name;
}

TEST(Decompose, PickAndPlaceBecomeComparisonsOfPositions) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 3, 7}});
  const Tensor indices = input(graph, "indices", {DType::i32, {2, 3}});
  const Tensor logs = log_softmax(x);
  const Tensor picked = pick(logs, indices);
  const Tensor placed = place(indices, picked * picked, 7);
  graph.mark_output("picked", picked.value());
  graph.mark_output("placed", placed.value());
  graph.mark_output("gradient", log_softmax_gradient(logs, placed).value());
  const Graph after = decompose(graph);
  for (Op op : {Op::pick, Op::place, Op::log_softmax_gradient}) EXPECT_EQ(count_of(after, op), 0);
  // One sum each for the softmax and for what is picked: what was placed needs none.
  EXPECT_EQ(count_of(after, Op::sum), 2) << to_text(after);
  expect_same_values(graph, after, random_inputs(graph, 5, 7), 1e-14);
}

TEST(Decompose, ComputesTheSame) {
  const Graph graph = composites(DType::f32);
  expect_same_values(graph, decompose(graph), random_inputs(graph, 5), 1e-14);
}

// 16-bit values are computed in fp32 and rounded once, as by the kernels.
TEST(Decompose, RoundsNarrowResultsOnce) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Graph graph = composites(dtype);
    const Graph after = decompose(graph);
    for (const Output& output : after.outputs()) EXPECT_EQ(after.type(output.value).dtype, dtype);
    // A value on the edge between two roundings may fall to the other side.
    expect_same_values(graph, after, random_inputs(graph, 6), info(dtype).epsilon / 2,
                       {.round_to_dtype = true});
    expect_same_values(graph, after, random_inputs(graph, 6), 1e-14);
  }
}

TEST(Decompose, LargeScoresDoNotOverflow) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {1, 4}});
  graph.mark_output("softmax", softmax(x).value());
  graph.mark_output("log_softmax", log_softmax(x).value());
  const InterpreterInputs inputs = {{"x", {1e30, 3e4, -1e30, -INFINITY}}};
  expect_same_values(graph, decompose(graph), inputs, 1e-14, {.round_to_dtype = true});
}

TEST(Decompose, RandomGraphsComputeTheSame) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(25);
    expect_same_values(random.graph, decompose(random.graph), random.inputs, 1e-11);
  }
}

}  // namespace
}  // namespace ridgeline

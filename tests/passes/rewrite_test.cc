#include "passes/rewrite.h"

#include <gtest/gtest.h>

#include <random>

#include "autodiff/gradient.h"
#include "base/error.h"
#include "passes/same_values.h"
#include "passes/simplify.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

using testing::expect_same_values;
using testing::random_inputs;

Graph copied(const Graph& graph) {
  return rewrite(graph, nullptr);
}

TEST(Rewrite, ACopyOfACopyIsTheSameText) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(20);
    const Graph once = copied(random.graph);
    EXPECT_EQ(to_text(once), to_text(copied(once)));
    expect_same_values(random.graph, once, random.inputs, 0);
  }
}

TEST(Rewrite, DropsDeadNodesButNoInput) {
  Graph graph;
  const Tensor unused = input(graph, "unused", {DType::f32, {2}});
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  exp(sin(x) + unused);
  graph.mark_output("y", cos(x).value());
  const Graph after = copied(graph);
  ASSERT_EQ(after.nodes().size(), 3u);
  EXPECT_EQ(after.nodes()[0].name, "unused");
  EXPECT_EQ(after.nodes()[1].name, "x");
  EXPECT_EQ(after.nodes()[2].op, Op::cos);
}

TEST(Rewrite, KeepsStagesNamesAndOutputs) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  const Tensor y = (sin(x)).named("y");
  graph.mark_output("y", y.value());
  graph.begin_stage("empty");
  graph.begin_stage("backward");
  const Cotangent cotangent{y, expand(scalar(y, 1), y.shape())};
  graph.mark_output("d_x", gradient({&cotangent, 1}, {&x, 1})[0].named("d_x").value());
  graph.begin_stage("end");
  const Graph after = copied(graph);
  EXPECT_EQ(to_text(after), to_text(graph));
  const std::vector<Stage> stages = after.stages();
  ASSERT_EQ(stages.size(), 4u);
  EXPECT_EQ(stages[1].name, "empty");
  EXPECT_EQ(stages[1].begin, stages[1].end);
  EXPECT_EQ(stages[2].begin, 2u);
  EXPECT_EQ(stages[3].name, "end");
}

TEST(Rewrite, ARuleReplacesANodeAndHandsOnItsName) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  graph.mark_output("y", (-sin(x).named("inner")).named("outer").value());
  const Graph after = rewrite(graph, [](const Site& site) -> std::vector<Value> {
    if (site.node.op != Op::negate) return {};
    return {(scalar(site.input(0), 0) - site.input(0)).value()};
  });
  EXPECT_EQ(testing::count_of(after, Op::negate), 0);
  EXPECT_EQ(after.node(after.outputs()[0].value).name, "outer");
  expect_same_values(graph, after, random_inputs(graph, 1), 0);
}

TEST(Rewrite, ARuleThatChangesAShapeIsCaught) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  graph.mark_output("y", (-x).value());
  const RewriteRule wrong = [](const Site& site) -> std::vector<Value> {
    return {reshape(site.input(0), {1, 2}).value()};
  };
  EXPECT_THROW(rewrite(graph, wrong), std::exception);
}

// A step that replaces `x`, whose old content `kept` is read afterwards.
struct Step {
  Graph graph;
  Tensor x, gradient, first, second, scalars;
  Step()
      : x(input(graph, "x", {DType::f32, {2, 3}})),
        gradient(input(graph, "gradient", {DType::f32, {2, 3}})),
        first(input(graph, "first", {DType::f32, {2, 3}})),
        second(input(graph, "second", {DType::f32, {2, 3}})),
        scalars(input(graph, "scalars", {DType::f32, {kAdamWScalars}})) {}
  void update() {
    const AdamWTensors tensors{x, gradient, first, second};
    graph.mark_output("x'", adamw_update({&tensors, 1}, scalars, {}, {})[0].parameter.value());
  }
};

TEST(Rewrite, ACopyThatOutlivesAnUpdateStaysACopy) {
  Step step;
  const Tensor kept = (step.x + 0.0).named("kept");
  const Tensor turned = reshape(transpose(step.x), {6}).named("turned");
  const Tensor early = -(step.x * 1.0);
  step.graph.mark_output("early", early.value());
  step.update();
  step.graph.mark_output("late", (kept * 2.0).value());
  step.graph.mark_output("late view", reshape(turned, {3, 2}).value());
  verify(step.graph);
  const Graph after = simplify(step.graph);  // verifies
  EXPECT_EQ(testing::count_of(after, Op::add), 1) << to_text(after);
  EXPECT_EQ(testing::count_of(after, Op::multiply), 1) << "x * 1 is read before the update";
  EXPECT_EQ(testing::count_of(after, Op::adamw_update), 1);
  expect_same_values(step.graph, after, random_inputs(step.graph, 3), 1e-12);
}

// Equal nodes are one node: what was rejected for one reader must not serve the next one.
TEST(Rewrite, AProductRejectedForOneReaderIsRejectedForAllBehindTheUpdate) {
  Step step;
  const Tensor doubled = step.x * 2.0, tripled = step.x * 3.0;
  step.update();
  step.graph.mark_output("sixfold", (doubled * 3.0).value());
  step.graph.mark_output("sixfold again", (tripled * 2.0).value());
  verify(step.graph);
  const Graph after = simplify(step.graph);  // verifies
  EXPECT_EQ(testing::count_of(after, Op::multiply), 4) << to_text(after);
  expect_same_values(step.graph, after, random_inputs(step.graph, 3), 1e-12);
}

TEST(Rewrite, ViewsOfAParameterAreMergedBeforeItsUpdate) {
  Step step;
  const Tensor back = transpose(transpose(step.x));
  step.graph.mark_output("early", exp(back).value());
  step.update();
  const Graph after = simplify(step.graph);
  EXPECT_EQ(testing::count_of(after, Op::permute), 0) << to_text(after);
}

// Chains of copies and views of x, some read before its update, some after: simplify() verifies
// that it moves no read behind the update.
TEST(Rewrite, RandomReadsAroundAnUpdateStayValid) {
  std::mt19937_64 random(23);
  const auto below = [&](size_t bound) { return random() % bound; };
  int with_late_reads = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Step step;
    std::vector<Tensor> values = {step.x};
    const auto link = [&](const Tensor& x) {
      const int64_t first = x.shape()[0];
      switch (below(8)) {
        case 0:
          return x + 0.0;
        case 1:
          return x * 1.0;
        case 2:
          return -x;
        case 3:
          return reshape(x, {6});
        case 4:
          return reshape(x, {2, 3});
        case 5:
          return x.shape().rank() == 2 ? transpose(x) : reshape(x, {3, 2});
        case 6:
          return slice(x, 0, 0, first);
        default:
          return mean(reshape(x, {1, 6}), {0});
      }
    };
    const auto grow = [&] {
      for (int i = 0; i < 8; ++i) {
        const Tensor from = values[below(values.size())];
        if (element_count(from.shape()) == 6) values.push_back(link(from));
      }
    };
    grow();
    step.graph.mark_output("early", sum(exp(values.back()), {0}).value());
    step.update();
    // Only what does not lie in x may be read now: verify() says which.
    const size_t early = values.size();
    for (size_t i = 1; i < early; ++i) {
      Graph attempt = step.graph;
      const Value late = attempt.add(Op::sin, {values[i].value()});
      attempt.mark_output("late", late);
      try {
        verify(attempt);
      } catch (const Error&) {
        continue;
      }
      ++with_late_reads;
      expect_same_values(attempt, simplify(attempt), random_inputs(attempt, 3), 1e-12);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(with_late_reads, 300);
}

// What an update leaves is a value like others, until the next one.
TEST(Rewrite, ReadersOfAnUpdatedValueAreRewritten) {
  Graph graph;
  const Tensor cache = input(graph, "cache", {DType::f32, {4, 3}});
  const Tensor rows = input(graph, "rows", {DType::f32, {1, 3}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const Tensor once = append(cache, rows, position);
  const Tensor kept = once + 0.0;
  graph.mark_output("turned", exp(transpose(transpose(once))).value());
  const Tensor twice = append(once, rows * 2.0, advance(position, 1));
  graph.mark_output("kept", (kept * 2.0).value());
  graph.mark_output("twice", twice.value());
  verify(graph);
  const Graph after = simplify(graph);
  EXPECT_EQ(testing::count_of(after, Op::permute), 0) << to_text(after);
  EXPECT_EQ(testing::count_of(after, Op::add), 1) << "outlives the second update";
  InterpreterInputs inputs = random_inputs(graph, 3);
  inputs["position"] = {6};
  expect_same_values(graph, after, inputs, 1e-12);
}

TEST(Rewrite, AnUpdateThatNothingReadsStays) {
  Step step;
  const AdamWTensors tensors{step.x, step.gradient, step.first, step.second};
  adamw_update({&tensors, 1}, step.scalars, {}, {});
  EXPECT_EQ(testing::count_of(copied(step.graph), Op::adamw_update), 1);
}

}  // namespace
}  // namespace ridgeline

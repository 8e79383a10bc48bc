#include "passes/checkpoint.h"

#include <gtest/gtest.h>

#include "cost/memory.h"
#include "graph/scope.h"
#include "passes/same_values.h"
#include "passes/small_transformer.h"

namespace ridgeline {
namespace {

using testing::kTiny;

Graph trained(Scenario scenario = Scenario::forward_backward) {
  return training_graph(kTiny, {.scenario = scenario});
}

// What was computed in forward and is still there when backward begins.
std::vector<std::string> saved(const Graph& graph) {
  const Schedule schedule = eager_schedule(graph);
  const MemoryProfile profile = memory(graph, schedule);
  std::vector<std::string> names;
  for (const Lifetime& each : profile.alive_before(schedule.stages[0].end))
    if (each.first_step >= 0) names.push_back(each.name);
  return names;
}

TEST(Checkpoint, ComputesTheSame) {
  const Graph graph = trained();
  const InterpreterInputs inputs = testing::random_inputs(graph, 3, kTiny.vocabulary);
  for (const int64_t blocks : {1, 2, 3}) {
    CheckpointReport report;
    const Graph again = checkpoint(graph, blocks, &report);
    EXPECT_EQ(report.runs, (kTiny.layers + blocks - 1) / blocks);
    EXPECT_GT(again.nodes().size(), graph.nodes().size());
    testing::expect_same_values(graph, again, inputs, 0);
  }
}

TEST(Checkpoint, KeepsOfBlocksOnlyWhatEntersARun) {
  const auto of_layers = [&](int64_t blocks) {
    std::vector<std::string> found;
    for (const std::string& name : saved(checkpoint(trained(), blocks)))
      if (name.starts_with("layers.")) found.push_back(name);
    return found;
  };
  using Names = std::vector<std::string>;
  // The last one enters the final norm.
  EXPECT_EQ(of_layers(1),
            (Names{"layers.0.ffn_residual", "layers.1.ffn_residual", "layers.2.ffn_residual"}));
  EXPECT_EQ(of_layers(2), (Names{"layers.1.ffn_residual", "layers.2.ffn_residual"}));
  EXPECT_EQ(of_layers(3), (Names{"layers.2.ffn_residual"}));
}

TEST(Checkpoint, ComputesABlockAgainOnlyWhenItsGradientIsNext) {
  // While the gradients of one block are computed, nothing of the blocks before it is there again.
  const Graph graph = checkpoint(trained(), 1);
  const uint32_t backward = graph.stages()[1].begin;
  int64_t lowest = kTiny.layers;
  for (uint32_t number = backward; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const std::string_view layer = layer_scope(graph.scope_path(node));
    if (layer.empty() || !std::holds_alternative<Again>(node.attributes.detail)) continue;
    const int64_t block = std::stoll(std::string(layer.substr(layer.rfind('.') + 1)));
    EXPECT_LE(block, lowest) << graph.name({number, 0});
    lowest = block;
  }
  EXPECT_EQ(lowest, 0);
}

// What a later update reads cannot be computed again from a tensor that an earlier one overwrote.
TEST(Checkpoint, WhatAnUpdateReadsIsNotComputedFromWhatIsOverwritten) {
  Graph graph;
  const TensorType rows{DType::f32, {1, 2, 3}};
  const auto cache_of = [&](const char* name) {
    return Tensor(graph, graph.input({name, Role::cache}, {DType::f32, {1, 4, 3}}));
  };
  const Tensor x = input(graph, "x", rows), first = cache_of("first"), second = cache_of("second");
  const Tensor position(graph, graph.input({"position", Role::step_scalars}, {DType::i32, {1}}));
  Tensor before, once;
  {
    const ScopeGuard layer(graph, "layers.0");
    before = first * 3.0;
    once = append(first, sin(x), position);
  }
  graph.begin_stage("backward");
  graph.mark_output("first", append(once, cos(x), position).value());
  graph.mark_output("second", append(second, before, position).value());
  const Graph again = checkpoint(graph, 1);  // verifies
  EXPECT_EQ(testing::count_of(again, Op::append), 3);
  testing::expect_same_values(graph, again, testing::random_inputs(graph, 3), 0);
}

TEST(Checkpoint, LeavesAGraphWithoutBackwardAlone) {
  const Graph forward = testing::forward_with_loss(kTiny, AttentionForm::plain);
  EXPECT_EQ(to_text(checkpoint(forward, 1)), to_text(forward));
  EXPECT_EQ(to_text(checkpoint(trained(), 0)), to_text(trained()));
}

}  // namespace
}  // namespace ridgeline

// In which order kernels run, which of them run beside others, and that memory follows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "models/transformer_lm.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/pack.h"
#include "passes/simplify.h"
#include "plan/plan.h"
#include "support/from_environment.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

Graph step_graph(Scenario scenario) {
  const TransformerConfig config{.name = "tiny",
                                 .d_model = 32,
                                 .d_ff = 64,
                                 .layers = 3,
                                 .heads = 2,
                                 .vocabulary = 40,
                                 .batch_size = 2,
                                 .context_length = 16};
  return simplify(decompose(training_graph(
      config, {.scenario = scenario,
               .attention = AttentionForm::fused,
               .forward_pass = [](const Graph& forward) { return pack(forward); }})));
}

struct Piece {
  int64_t begin, end;
  Value storage;
};

// What a kernel touches in the arena.
std::vector<Piece> touched(const Graph& graph, const Plan& plan, const PlannedKernel& kernel,
                           bool written_only) {
  std::vector<Piece> pieces;
  const auto add = [&](Value storage) {
    const int64_t offset = plan.offsets[graph.index(storage)];
    if (offset == Plan::kNotInArena) return;
    pieces.push_back({offset, offset + byte_size(graph.type(storage)).count, storage});
  };
  for (Value storage : kernel.group.writes) add(storage);
  if (!written_only)
    for (Value storage : kernel.group.reads) add(storage);
  return pieces;
}

bool overlap(const Piece& a, const Piece& b) {
  return a.begin < b.end && b.begin < a.end && a.storage != b.storage;
}

void expect_inputs_come_first(const Graph& graph, const Plan& plan) {
  std::set<uint32_t> there;
  for (Value input : graph.inputs()) there.insert(graph.index(input));
  for (const PlannedKernel& kernel : plan.kernels) {
    for (Value storage : kernel.group.reads)
      EXPECT_TRUE(there.contains(graph.index(storage))) << graph.name(storage);
    for (Value storage : kernel.group.writes) there.insert(graph.index(storage));
  }
}

TEST(Order, UpdatesRunAsSoonAsTheirGradientsAreThere) {
  const Graph graph = step_graph(Scenario::full_step);
  const Plan plan = make_plan(graph, {.early_updates = true});
  expect_inputs_come_first(graph, plan);
  // Whatever an update overwrites was read for the last time before it.
  std::set<uint32_t> overwritten;
  for (const PlannedKernel& kernel : plan.kernels) {
    for (Value storage : kernel.group.reads)
      EXPECT_FALSE(overwritten.contains(graph.index(storage))) << graph.name(storage);
    if (kernel.group.kind == GroupKind::library && is_update(graph.nodes()[kernel.group.node].op))
      for (Value storage : kernel.group.writes) overwritten.insert(graph.index(storage));
  }
  EXPECT_FALSE(overwritten.empty());
  // And right behind the kernel that it had to wait for.
  const std::vector<Value>* before = nullptr;
  for (const PlannedKernel& kernel : plan.kernels) {
    const Group& group = kernel.group;
    if (group.kind != GroupKind::library || !is_update(graph.nodes()[group.node].op)) {
      before = &group.writes;
      continue;
    }
    ASSERT_NE(before, nullptr);
    EXPECT_TRUE(std::any_of(group.reads.begin(), group.reads.end(), [&](Value read) {
      return std::find(before->begin(), before->end(), read) != before->end();
    })) << graph.name(group.writes[0]);
  }
  EXPECT_EQ(plan.stages.back().end, plan.kernels.size());
}

TEST(Order, RefusalsFollowTheKernelsThatMove) {
  Graph graph;
  const TensorType type{DType::f32, {64}};
  const Tensor x = input(graph, "x", {DType::f32, {64, 64}});
  const Tensor by_rows = sum(x, {1}), by_columns = sum(x, {0});
  const AdamWTensors tensors{input(graph, "p", type), input(graph, "g", type),
                             input(graph, "m", type), input(graph, "v", type)};
  const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
  graph.mark_output("p", adamw_update({&tensors, 1}, scalars, {}, {})[0].parameter.value());
  graph.mark_output("rows", by_rows.value());
  graph.mark_output("columns", by_columns.value());
  const Plan plan = make_plan(graph, {.early_updates = true});
  ASSERT_TRUE(plan.kernels[0].group.kind == GroupKind::library);  // its gradient is an input
  ASSERT_EQ(plan.refusals.size(), 1u) << explain(graph, plan);
  const uint32_t refused_by = plan.refusals[0].group;
  ASSERT_LT(refused_by, plan.kernels.size());
  EXPECT_EQ(plan.kernels[refused_by].group.writes, std::vector{by_rows.value()});
}

// How many kernels run beside others. What these touch is left alone until they are awaited.
size_t expect_kernels_beside_are_left_alone(const Graph& graph, const Plan& plan) {
  size_t beside = 0;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const PlannedKernel& side = plan.kernels[i];
    if (!side.on_side) continue;
    ++beside;
    const size_t until = std::min<size_t>(side.join, plan.kernels.size());
    for (size_t other = i + 1; other < until; ++other) {
      const PlannedKernel& kernel = plan.kernels[other];
      if (kernel.on_side) continue;  // these run one after the other
      for (const Piece& mine : touched(graph, plan, side, false))
        for (const Piece& theirs : touched(graph, plan, kernel, true))
          EXPECT_FALSE(overlap(mine, theirs)) << i << " and " << other;
      for (Value written : side.group.writes)
        for (Value read : kernel.group.reads) EXPECT_FALSE(written == read) << i << ", " << other;
      for (Value read : side.group.reads)
        for (Value written : kernel.group.writes)
          EXPECT_FALSE(written == read) << i << ", " << other;
    }
  }
  return beside;
}

TEST(Order, NobodyTouchesTheMemoryOfAKernelBesideThatIsNotAwaited) {
  // Gradients are outputs that no kernel reads.
  const Graph graph = step_graph(Scenario::forward_backward);
  const Plan plan = make_plan(graph, {.overlap = true, .early_updates = true});
  expect_inputs_come_first(graph, plan);
  EXPECT_GT(expect_kernels_beside_are_left_alone(graph, plan), 10u);
}

// Two steps of one parameter and what follows from each: an update moves past nothing that reads
// what it writes, and past no other update of it.
TEST(Order, UpdatesStayBetweenTheirReaders) {
  Graph graph;
  const TensorType type{DType::f32, {16}};
  const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
  const Tensor g = input(graph, "g", type);
  AdamWTensors tensors{input(graph, "p", type), softmax(g * 2), input(graph, "m", type),
                       input(graph, "v", type)};
  // Halves of the parameter as it was, and a concatenation of them that waits for its reader.
  const std::array as_it_was = {tensors.parameter, g * 0.5};
  const Tensor inner = concat(as_it_was, 0);
  std::vector<Value> updates;
  for (int step = 0; step < 2; ++step) {
    tensors = adamw_update({&tensors, 1}, scalars, {}, {})[0];
    updates.push_back(tensors.parameter.value());
    graph.mark_output("norm" + std::to_string(step),
                      softmax(tensors.parameter * (2.0 + step)).value());
    tensors.gradient = g;  // there from the start
  }
  const std::array parts = {inner, softmax(g)};
  graph.mark_output("outer", concat(parts, 0).value());
  graph.mark_output("p", tensors.parameter.value());
  for (bool reorders : {false, true}) {
    const Plan plan = make_plan(graph, {.overlap = reorders, .early_updates = reorders});
    // Readers and writers of the parameter's storage, in order.
    std::string order;
    for (const PlannedKernel& kernel : plan.kernels) {
      const Group& group = kernel.group;
      const auto touches = [&](const std::vector<Value>& storages) {
        return std::find(storages.begin(), storages.end(), as_it_was[0].value()) != storages.end();
      };
      if (touches(group.writes))
        order += group.node == updates[0].node ? "1" : "2";
      else if (touches(group.reads))
        order += "r";
    }
    EXPECT_EQ(order, "r1r2r") << explain(graph, plan);
    expect_kernels_beside_are_left_alone(graph, plan);
  }
}

// Whatever reads the position, at once or waiting for its own reader, runs before it moves on.
TEST(Order, ThePositionAdvancesBehindItsReaders) {
  Graph graph;
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const Tensor cache = input(graph, "cache", {DType::f32, {4, 8}});
  const Tensor rows = input(graph, "rows", {DType::f32, {1, 8}});
  const Tensor at = cast(position, DType::f32) * 0.5;  // nobody has asked for it yet
  const Tensor appended = append(cache, softmax(rows), position);
  const Tensor held = ring_positions(position, 1, 4);
  const Tensor after = advance(position, 1);
  graph.mark_output("held", held.value());
  graph.mark_output("at", sin(at + sum(appended, {0, 1})).value());
  graph.mark_output("after", cast(after, DType::f32).value());
  for (bool reorders : {false, true}) {
    const Plan plan = make_plan(graph, {.overlap = reorders, .early_updates = reorders});
    std::string order;  // of readers and writers of the position
    for (const PlannedKernel& kernel : plan.kernels) {
      const Group& group = kernel.group;
      const auto touches = [&](const std::vector<Value>& storages) {
        return std::find(storages.begin(), storages.end(), position.value()) != storages.end();
      };
      order += touches(group.writes) ? "w" : touches(group.reads) ? "r" : "";
    }
    EXPECT_EQ(order, "rrrwr") << explain(graph, plan);
    expect_kernels_beside_are_left_alone(graph, plan);
  }
}

// There is a plan for every graph, whatever it consists of.
TEST(Order, OfRandomGraphs) {
  const uint64_t first = testing::first_seed() + 40000;
  for (uint64_t seed = first; seed < first + testing::graphs_wanted(500); ++seed) {
    Graph graph = testing::RandomGraphMaker(seed).make(20).graph;
    if (seed % 2 != 0) graph = simplify(decompose(flash(graph)));
    for (bool reorders : {false, true}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Plan plan;
      ASSERT_NO_THROW(plan = make_plan(graph, {.overlap = reorders, .early_updates = reorders}));
      expect_inputs_come_first(graph, plan);
      expect_kernels_beside_are_left_alone(graph, plan);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace ridgeline

// In which order kernels run, which of them run beside others, and that memory follows.
#include <gtest/gtest.h>

#include <set>

#include "models/transformer_lm.h"
#include "passes/decompose.h"
#include "passes/pack.h"
#include "passes/simplify.h"
#include "plan/plan.h"

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
  EXPECT_EQ(plan.stages.back().end, plan.kernels.size());
}

TEST(Order, NobodyTouchesTheMemoryOfAKernelBesideThatIsNotAwaited) {
  // Gradients are outputs that no kernel reads.
  const Graph graph = step_graph(Scenario::forward_backward);
  const Plan plan = make_plan(graph, {.overlap = true, .early_updates = true});
  expect_inputs_come_first(graph, plan);
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
    }
  }
  EXPECT_GT(beside, 10u);
}

}  // namespace
}  // namespace ridgeline

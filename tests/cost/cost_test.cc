#include "cost/cost.h"

#include <gtest/gtest.h>

#include "cost/memory.h"
#include "models/attention.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

// The formulae of teaching: gemm MAC = N K M, I/O = 4 (NK + KM + NM); attention MAC = 2 B H S S d.
TEST(Cost, GemmMatchesTheTextbook) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {30, 40}});
  const Tensor b = input(graph, "b", {DType::f32, {40, 50}});
  matmul(a, b);
  const Cost cost = stage_cost(graph, graph.stages()[0]);
  EXPECT_EQ(cost.macs, 30.0 * 40 * 50);
  EXPECT_EQ(cost.flops, 2.0 * 30 * 40 * 50);
  EXPECT_EQ(cost.bytes, 4.0 * (30 * 40 + 40 * 50 + 30 * 50));
}

TEST(Cost, AttentionMatchesTheTextbook) {
  const Graph graph =
      attention_training_graph({.batch_size = 2, .heads = 3, .seq_len = 64, .head_dim = 16});
  EXPECT_EQ(stage_cost(graph, graph.stages()[0]).macs, 2.0 * 2 * 3 * 64 * 64 * 16);
  EXPECT_EQ(stage_cost(graph, graph.stages()[1]).macs, 4.0 * 2 * 3 * 64 * 64 * 16)
      << "naive backward has four products where flash, which recomputes one, has five";
}

TEST(Cost, ViewsAreFreeAndBroadcastsAreReadOnce) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {100, 1}});
  const Tensor wide = expand(transpose(reshape(x, {1, 100})), {100, 50});
  const Tensor y = wide * 2.0;
  const std::vector<Cost> costs = node_costs(graph);
  EXPECT_EQ(costs[wide.value().node].bytes, 0);
  EXPECT_EQ(costs[y.value().node].bytes, 4.0 * (100 + 100 * 50));
  EXPECT_EQ(costs[y.value().node].flops, 100.0 * 50);
}

// Of the cache only the new rows move when they are appended, and attention reads it whole, or what
// its window shows.
TEST(Cost, CachesAreFull) {
  Graph graph;
  const Tensor cache = input(graph, "cache", {DType::bf16, {2, 3, 100, 64}});
  const Tensor rows = input(graph, "rows", {DType::bf16, {2, 3, 2, 64}});
  const Tensor q = input(graph, "q", {DType::bf16, {2, 6, 2, 64}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const Tensor appended = append(cache, rows, position);
  const auto y = cached_attention(q, appended, appended, position, {});
  const auto window = cached_attention(q, appended, appended, position, {.mask = {.window = 10}});
  advance(position, 2);
  const auto cost_of = [&](const Tensor& x) { return node_costs(graph)[x.value().node]; };
  EXPECT_EQ(cost_of(appended).bytes, 2 * 2 * 3 * 2 * 64 * 2 + 4);
  const double others = 2 * (2 * 6 * 2 * 64 * 2) + 2 * 6 * 2 * 4 + 4;  // q, output, lse, position
  const double of_a_slot = 2 * (2 * 3 * 64 * 2);
  EXPECT_EQ(cost_of(y.output).bytes, others + 100 * of_a_slot);
  EXPECT_EQ(cost_of(y.output).macs, 2 * (99 + 100) * 2 * 6 * 64.0);
  EXPECT_EQ(cost_of(window.output).bytes, others + 11 * of_a_slot);
  EXPECT_EQ(cost_of(window.output).macs, 2 * (10 + 10) * 2 * 6 * 64.0);
}

// Batch 8, S 4096, d 64 in fp32: saved for backward are the inputs, the weights and the output.
TEST(Memory, AttentionSavesItsWeights) {
  const Graph graph = attention_training_graph({.batch_size = 8, .seq_len = 4096, .head_dim = 64});
  const MemoryProfile profile = memory(graph, eager_schedule(graph));
  const int64_t small = int64_t{8} * 4096 * 64 * 4;
  const int64_t square = int64_t{8} * 4096 * 4096 * 4;
  EXPECT_EQ(profile.inputs.count, 4 * small);
  EXPECT_EQ(profile.stage_end[0].count, 5 * small + square);
  EXPECT_EQ(profile.alive_before(graph.stages()[1].begin)[0].name, "weights");
  // Backward holds the weights, their gradient and the gradient of the scores at once.
  EXPECT_EQ(profile.peak.count, 6 * small + 3 * square);
  EXPECT_EQ(profile.at_peak()[0].bytes.count, square);
}

TEST(Memory, ScratchCountsWhileItsNodeRuns) {
  const Graph graph = attention_training_graph({.batch_size = 1, .seq_len = 64, .head_dim = 16},
                                               AttentionForm::fused);
  const Schedule schedule = eager_schedule(graph);
  const MemoryProfile bare = memory(graph, schedule);
  std::vector<Op> asked;
  const ScratchOf scratch = [&](const Node& node, std::span<const TensorType> inputs) {
    asked.push_back(node.op);
    EXPECT_EQ(inputs.size(), node.inputs.size());
    return node.op == Op::attention_gradient ? Bytes{1000} : Bytes{};
  };
  const MemoryProfile with = memory(graph, schedule, scratch);
  EXPECT_EQ(with.peak, bare.peak + Bytes{1000});
  EXPECT_EQ(with.peak_scratch, Bytes{1000});
  EXPECT_EQ(with.stage_end, bare.stage_end);
  EXPECT_EQ(asked, (std::vector{Op::attention, Op::attention_gradient})) << "views run nothing";
}

// The prediction is what the ledger sees, on graphs nobody designed, at every stage.
TEST(Memory, PredictionEqualsTheLedgerOnRandomGraphs) {
  CpuDevice device({.threads = 1});
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(20);
    const Schedule schedule = eager_schedule(made.graph);
    const MemoryProfile profile = memory(made.graph, schedule);
    device.ledger().start_over();
    {
      EagerExecutor executor(made.graph, schedule, device);
      for (const auto& [name, values] : made.inputs)
        testing::upload(device, executor.input(name), values);
      executor.run_all();
      EXPECT_EQ(device.ledger().live(), profile.stage_end.back());
      EXPECT_EQ(device.ledger().peak(), profile.peak);
    }
    EXPECT_EQ(device.ledger().live().count, 0);
  }
}

}  // namespace
}  // namespace ridgeline

// Collectives as nodes: types, text, where sums lie, and where the work beside them waits.
#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/cost.h"
#include "cost/memory.h"
#include "graph/joins.h"
#include "graph/schedule.h"
#include "graph/tensor.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

TEST(CollectiveNodes, HaveTheTypesOfWholesAndShards) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {10}});
  EXPECT_EQ(all_reduce(x, {4}).shape(), (Shape{10}));
  EXPECT_EQ(reduce_scatter(x, {4}).shape(), (Shape{3}));
  EXPECT_EQ(all_gather(reduce_scatter(x, {4}), 10, {4}).shape(), (Shape{10}));
  EXPECT_THROW(all_gather(x, 10, {4}), Error) << "a shard of 10 among 4 ranks has 3";
  EXPECT_THROW(all_reduce(x, {0}), Error);
  EXPECT_THROW(reduce_scatter(input(graph, "y", {DType::f32, {2, 5}}), {2}), Error);
  EXPECT_THROW(all_reduce(input(graph, "ids", {DType::i32, {4}}), {2}), Error);
  verify(graph);
}

TEST(CollectiveNodes, AreEqualOnlyWithOnePurpose) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {8}});
  const Tensor first = all_gather(x, 16, {2, "forward"});
  EXPECT_EQ(first.value(), all_gather(x, 16, {2, "forward"}).value());
  EXPECT_NE(first.value(), all_gather(x, 16, {2, "backward"}).value());
  graph.mark_output("first", first.value());
  EXPECT_HAS(to_text(graph), "all_gather(%0, 2 ranks, forward) : fp32[16]");
}

TEST(CollectiveNodes, CostWhatARankSends) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {1200}});
  graph.mark_output("sum", all_reduce(x, {3}).value());
  graph.mark_output("whole", all_gather(reduce_scatter(x, {3}), 1200, {3}).value());
  double sent = 0;
  for (const Cost& cost : node_costs(graph)) sent += cost.communicated;
  EXPECT_DOUBLE_EQ(sent, 4 * 4800.0 * 2 / 3);
}

TEST(CollectiveNodes, SumWhereTheirOperandLayIfNobodyElseReadsIt) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {8, 4}});
  const Tensor alone = x * 2;
  const Tensor shared = x * 3;
  const Tensor of_alone = all_reduce(reshape(alone, {32}), {2});
  const Tensor of_shared = all_reduce(reshape(shared, {32}), {2});
  const Tensor of_input = all_reduce(x, {2});
  graph.mark_output("a", of_alone.value());
  graph.mark_output("b", (of_shared + reshape(shared, {32})).value());
  graph.mark_output("c", of_input.value());
  const std::vector<Layout> places = layouts(graph);
  const auto storage = [&](const Tensor& t) { return places[graph.index(t.value())].storage; };
  EXPECT_EQ(storage(of_alone), alone.value());
  EXPECT_EQ(storage(of_shared), of_shared.value());
  EXPECT_EQ(storage(of_input), of_input.value());
}

// Steps 0 and 2 are collectives whose operands could be given back.
TEST(Joins, ComeBeforeTheFirstReaderTheNextHolderAndTheEnd) {
  const std::vector<Touched> steps = {
      {.reads = {0}, .writes = {1}, .is_collective = true, .holds_operand = true},
      {.reads = {5}, .writes = {6}},
      {.reads = {2}, .writes = {3}, .is_collective = true, .holds_operand = true},
      {.reads = {6}, .writes = {7}},
      {.reads = {7}, .writes = {7}, .is_collective = true},
      {.reads = {3}, .writes = {8}},
      {.reads = {1}, .writes = {0}},
      {.reads = {8}, .writes = {9}, .is_collective = true},
  };
  EXPECT_EQ(find_joins(steps), (std::vector<uint32_t>{2, 1, 5, 3, 7, 5, 6, 7}));
}

TEST(Joins, KeepOperandsUntilTheCollectiveIsDone) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {64}});
  const Tensor shard = reduce_scatter(x * 2, {2});
  const Tensor beside = x * 3;
  graph.mark_output("beside", beside.value());
  graph.mark_output("sum", (shard + shard).value());
  const Schedule schedule = eager_schedule(graph);
  const uint32_t reader = static_cast<uint32_t>(graph.nodes().size() - 1);
  EXPECT_EQ(schedule.steps[reader].joins, (std::vector<uint32_t>{shard.value().node}));
  const MemoryProfile profile = memory(graph, schedule);
  // x, 2 x, the shard, 3 x and the sum: 2 x may not go before the shard is there.
  EXPECT_EQ(profile.peak.count, 4 * (64 + 64 + 32 + 64 + 32));
}

}  // namespace
}  // namespace ridgeline

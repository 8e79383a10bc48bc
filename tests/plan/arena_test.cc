#include "plan/arena.h"

#include <gtest/gtest.h>

#include <random>

#include "models/attention.h"
#include "plan/plan.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

void expect_no_overlap(const std::vector<ArenaBlock>& blocks, Bytes size) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const ArenaBlock& a = blocks[i];
    ASSERT_GE(a.offset, 0);
    ASSERT_EQ(a.offset % kArenaAlignment, 0);
    ASSERT_LE(a.offset + a.bytes.count, size.count);
    for (size_t j = 0; j < i; ++j) {
      const ArenaBlock& b = blocks[j];
      const bool meet_in_time = a.first <= b.last && b.first <= a.last;
      const bool meet_in_space =
          a.offset < b.offset + b.bytes.count && b.offset < a.offset + a.bytes.count;
      ASSERT_FALSE(meet_in_time && meet_in_space) << i << " and " << j;
    }
  }
}

TEST(Arena, BlocksThatLiveTogetherNeverOverlap) {
  std::mt19937_64 random(1);
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBlock> blocks(1 + below(60));
    for (ArenaBlock& block : blocks) {
      block.bytes = {1 + below(10000)};
      block.first = below(40);
      block.last = block.first + below(round % 2 ? 40 : 5);
    }
    const Bytes size = place_blocks(blocks);
    expect_no_overlap(blocks, size);
    EXPECT_GE(size, most_alive(blocks));
    EXPECT_LE(size.count, 2 * most_alive(blocks).count);
  }
}

TEST(Arena, BlocksOfPlansNeverOverlap) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Plan plan = make_plan(testing::RandomGraphMaker(seed).make(20).graph);
    expect_no_overlap(plan.blocks, plan.arena);
  }
}

TEST(Arena, AResultTakesThePlaceOfAnOperandThatDies) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {64, 64}});
  const Tensor product = matmul(a, a);
  graph.mark_output("y", sin(product).value());
  const Plan plan = make_plan(graph);
  EXPECT_EQ(plan.arena.count, 64 * 64 * 4);
}

}  // namespace
}  // namespace ridgeline

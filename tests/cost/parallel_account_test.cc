// The accounts of the assignment's example, against figures by hand.
#include "cost/parallel_account.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridgeline {
namespace {

const TrainedModel kExample = linear_block_model({}, 2);

TEST(Assignment, CountsParametersStateAndDevicesOfItsExample) {
  EXPECT_EQ(kExample.parameters, 219'848'638'464);
  const RankMemory memory = rank_memory(kExample, ParallelStrategy::naive, 1, 0);
  EXPECT_DOUBLE_EQ(memory.weights, 879'394'553'856.0);  // 4 bytes each
  EXPECT_DOUBLE_EQ(memory.gradients, memory.weights);
  EXPECT_DOUBLE_EQ(memory.moments, 2 * memory.weights);
  EXPECT_DOUBLE_EQ(memory.state(), 3'517'578'215'424.0);  // 3.52 TB
  EXPECT_EQ(std::ceil(memory.state() / 80e9), 44);        // devices of 80 GB
  // What a token saves: the inputs of both layers in 16 bits, 126 times.
  EXPECT_DOUBLE_EQ(kExample.saved_bytes_per_token, 2.0 * (16384 + 53248) * 126);
}

TEST(Assignment, SaysHowManyRanksShareTheExample) {
  const auto of = [&](double tokens) {
    return fewest_ranks(95e9, 1 << 20,
                        [&](int64_t ranks) { return spread_bytes(kExample, ranks, tokens, 0.5); });
  };
  EXPECT_EQ(of(0), 38);  // 3517.6 GB / 95 GB = 37.03
  // 2048 tokens save 35.94 GB: 17.97 stay on each rank, 3517.58 + 17.97 are shared: 45.9 ranks.
  EXPECT_EQ(of(2048), 46);
  EXPECT_EQ(of(20480), std::nullopt);  // half of 359 GB is more than a rank has
}

// One rank of fsdp gathers nothing, so two may need more than one.
TEST(FewestRanks, IsOneWhereOneFitsThoughTwoDoNot) {
  const TrainedModel model = linear_block_model({.d_model = 16384, .d_ff = 53248, .blocks = 1}, 4);
  const auto bytes = [&](int64_t ranks) {
    return rank_memory(model, ParallelStrategy::fsdp, ranks, 0).total();
  };
  const double memory = 1.05 * bytes(1);
  ASSERT_GT(bytes(2), memory);
  ASSERT_LT(bytes(4), memory);
  EXPECT_EQ(fewest_ranks(memory, 1 << 20, bytes), 1);
  EXPECT_EQ(fewest_ranks(0.95 * bytes(1), 1 << 20, bytes), 5);
  EXPECT_EQ(fewest_ranks(bytes(1), 1, bytes), 1);
  // The copies of more ranks alone are too much, but one has none.
  EXPECT_EQ(fewest_ranks(100, 8, [](int64_t ranks) { return ranks == 1 ? 100 : 101; }), 1);
}

TEST(Assignment, SaysFromWhichBatchOnItsMeshComputes) {
  const MeshBound bound = mesh_bound({.fsdp = 16, .tensor = 4, .fsdp_links = 2, .tensor_links = 1},
                                     53248, 2, {.flops_per_s = 4.6e14, .bytes_per_s = 2 * 9e10});
  EXPECT_NEAR(bound.tokens, 20444.4, 0.1);  // 16 x 2555.6 / 2
  EXPECT_NEAR(bound.tokens_per_rank, 319.4, 0.1);
  EXPECT_TRUE(bound.hides_tensor);  // 4 x 2555.6 is below 53248
  EXPECT_NEAR(bound.widest_tensor, 20.8, 0.05);
}

TEST(RankMemory, IsCutByWhatTheStrategyShards) {
  const TrainedModel model = linear_block_model({.d_model = 10, .d_ff = 50, .blocks = 4}, 4);
  ASSERT_EQ(model.parameters, 4000);
  const RankMemory whole = rank_memory(model, ParallelStrategy::bucketed, 4, 3);
  EXPECT_DOUBLE_EQ(whole.total(), 16 * 4000 + 3.0 * 4 * 60 * 4);
  const RankMemory sharded = rank_memory(model, ParallelStrategy::sharded, 4, 3);
  EXPECT_DOUBLE_EQ(sharded.moments, 8 * 1000);
  EXPECT_DOUBLE_EQ(sharded.weights + sharded.gradients, 8 * 4000);
  const RankMemory full = rank_memory(model, ParallelStrategy::fsdp, 4, 3);
  EXPECT_DOUBLE_EQ(full.state(), 16 * 1000);
  EXPECT_DOUBLE_EQ(full.copies, 3 * 4 * 1000);  // two blocks' weights, and one's gradient
  const RankMemory accumulated = rank_memory(model, ParallelStrategy::fsdp, 4, 3, 2);
  EXPECT_DOUBLE_EQ(accumulated.gradients, 4 * 4000);
  EXPECT_DOUBLE_EQ(accumulated.total() - full.total(), 4 * 3000);
}

TEST(Hiding, BandwidthAndTokensAreTwoSidesOfOneBalance) {
  for (const ParallelStrategyInfo& row : parallel_strategies()) {
    const auto tokens =
        hiding_tokens(kExample, row.strategy, 8, {.flops_per_s = 5e14, .bytes_per_s = 450e9});
    EXPECT_EQ(tokens.has_value(), row.overlaps) << row.name;
    if (tokens) {
      EXPECT_NEAR(hiding_bandwidth(kExample, row.strategy, 8, *tokens, 5e14).value(), 450e9, 1)
          << row.name;
    }
  }
  // All-reduce: 7/4 x 2 bytes behind 4 FLOPs of each parameter and token.
  EXPECT_NEAR(hiding_tokens(kExample, ParallelStrategy::bucketed, 8,
                            {.flops_per_s = 5e14, .bytes_per_s = 450e9})
                  .value(),
              7.0 / 4 * 2 / 4 * 5e14 / 450e9, 1e-6);
  // Of a sharded optimizer, the reduce-scatter alone is behind backward.
  EXPECT_NEAR(hiding_tokens(kExample, ParallelStrategy::sharded, 8,
                            {.flops_per_s = 5e14, .bytes_per_s = 450e9})
                  .value(),
              7.0 / 8 * 2 / 4 * 5e14 / 450e9, 1e-6);
  // Two gathers in each micro-batch, and one scatter.
  EXPECT_DOUBLE_EQ(sent_per_step(kExample, ParallelStrategy::fsdp, 8, 4) /
                       sent_per_step(kExample, ParallelStrategy::fsdp, 8),
                   9.0 / 3);
  // Gathers and scatter: 3 x 7/8 x 2 bytes behind 6 FLOPs, the same.
  EXPECT_NEAR(hiding_tokens(kExample, ParallelStrategy::fsdp, 8,
                            {.flops_per_s = 5e14, .bytes_per_s = 450e9})
                  .value(),
              7.0 / 8 * 5e14 / 450e9, 1e-6);
}

}  // namespace
}  // namespace ridgeline

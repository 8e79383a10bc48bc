// Costs of collectives and of steps of several ranks, against figures by hand.
#include "cost/communication.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cost/parallel_step.h"

namespace ridgeline {
namespace {

constexpr Link kNvlink{.latency_s = 5e-6, .bytes_per_s = 400e9};
constexpr Link kNic{.latency_s = 20e-6, .bytes_per_s = 50e9};
constexpr Network kCluster{.inside = kNvlink, .between = kNic, .ranks_per_node = 8};

TEST(CollectiveCost, OfARingIsThatOfTheTextbook) {
  const CollectiveSize gigabyte{CollectiveKind::all_reduce, 1e9, 8};
  const CollectiveCost ring = collective_cost(gigabyte, CollectiveAlgorithm::ring, kCluster);
  EXPECT_DOUBLE_EQ(ring.steps_inside, 14);      // 2 (n - 1)
  EXPECT_DOUBLE_EQ(ring.bytes_inside, 1.75e9);  // 2 (n - 1) / n
  EXPECT_DOUBLE_EQ(ring.bytes_between, 0);
  EXPECT_DOUBLE_EQ(ring.seconds, 14 * 5e-6 + 4.375e-3);

  const CollectiveSize gathered{CollectiveKind::all_gather, 1e9, 4};
  EXPECT_DOUBLE_EQ(collective_cost(gathered, CollectiveAlgorithm::ring, kCluster).seconds,
                   3 * 5e-6 + 0.75e9 / 400e9);
}

TEST(CollectiveCost, OverNodesWaitsForTheLinkBetweenThem) {
  const CollectiveSize size{CollectiveKind::all_reduce, 1e9, 64};  // 8 nodes
  const CollectiveCost ring = collective_cost(size, CollectiveAlgorithm::ring, kCluster);
  EXPECT_DOUBLE_EQ(ring.steps_between, 126);
  // 8 links outwards carry what one rank would: 1.96875 GB / 8 at 50 GB/s, 4.92 ms, as within.
  EXPECT_NEAR(ring.seconds, 126 * 20e-6 + 1.96875e9 / 400e9, 1e-12);
  const CollectiveCost tree = collective_cost(size, CollectiveAlgorithm::tree, kCluster);
  EXPECT_DOUBLE_EQ(tree.steps_inside, 6);
  EXPECT_DOUBLE_EQ(tree.steps_between, 6);
  EXPECT_NEAR(tree.seconds, 6 * 5e-6 + 6 * 20e-6 + 2e9 / 400e9, 1e-12);
  const CollectiveCost both = collective_cost(size, CollectiveAlgorithm::hierarchical, kCluster);
  EXPECT_DOUBLE_EQ(both.steps_inside, 14);
  EXPECT_DOUBLE_EQ(both.steps_between, 14);
  EXPECT_NEAR(both.seconds, 14 * 5e-6 + 1.75e9 / 400e9 + 14 * 20e-6 + 1.75e9 / 8 / 50e9, 1e-12);
}

TEST(CollectiveCost, OfAnAllReduceIsThatOfItsTwoHalves) {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const int ranks = 2 + static_cast<int>(random() % 300);
    const double bytes = 1 + static_cast<double>(random() % 1000000);
    for (const auto algorithm : {CollectiveAlgorithm::ring, CollectiveAlgorithm::hierarchical}) {
      const auto seconds = [&](CollectiveKind kind) {
        return collective_cost({kind, bytes, ranks}, algorithm, kCluster).seconds;
      };
      EXPECT_NEAR(seconds(CollectiveKind::all_reduce),
                  seconds(CollectiveKind::reduce_scatter) + seconds(CollectiveKind::all_gather),
                  1e-9 * seconds(CollectiveKind::all_reduce))
          << ranks;
    }
  }
}

TEST(CollectiveCost, OfOneRankIsNothing) {
  for (const CollectiveAlgorithmInfo& row : collective_algorithms())
    EXPECT_EQ(
        collective_cost({CollectiveKind::all_reduce, 1e9, 1}, row.algorithm, kCluster).seconds, 0);
}

TEST(CollectiveCost, CrossesFromTreeToRingWhereTheFormulaSaysSo) {
  EXPECT_FALSE(ring_over_tree_bytes(2, kNvlink));
  for (const int ranks : {4, 8}) {
    const double crossing = ring_over_tree_bytes(ranks, kNvlink).value();
    const auto faster = [&](double bytes) {
      const CollectiveSize size{CollectiveKind::all_reduce, bytes, ranks};
      return collective_cost(size, CollectiveAlgorithm::ring, kCluster).seconds <
             collective_cost(size, CollectiveAlgorithm::tree, kCluster).seconds;
    };
    EXPECT_TRUE(faster(crossing * 1.001));
    EXPECT_FALSE(faster(crossing * 0.999));
  }
  EXPECT_DOUBLE_EQ(*ring_over_tree_bytes(8, kNvlink), 8 * (7 - 3) * 5e-6 * 400e9);  // 64 MB
}

// A second of forward, two of backward and a tenth of optimizer; 100 MB/s of buffers, 10 ms each.
constexpr StepTimes kTimes{.forward_s = 1, .backward_s = 2, .optimizer_s = 0.1};
double simple_time(CollectiveKind kind, double bytes) {
  return 0.01 + bytes * (kind == CollectiveKind::all_reduce ? 2 : 1) / 200e6;
}

StepTraffic traffic_of(ParallelStrategy strategy, double cap_bytes, int micro_batches = 1) {
  const std::vector<double> tensors(10, 10e6);
  return {.strategy = strategy,
          .gradients = buckets_of(tensors, cap_bytes),
          .ranks = 4,
          .micro_batches = micro_batches};
}

TEST(PredictedStep, OfNaiveAndFlatAddsAllCommunication) {
  const PredictedStep naive =
      predict_step(kTimes, traffic_of(ParallelStrategy::naive, 0), simple_time);
  EXPECT_EQ(naive.collectives, 10);
  EXPECT_NEAR(naive.communication_s, 10 * 0.01 + 1, 1e-12);
  EXPECT_NEAR(naive.step_s, 3.1 + 1.1, 1e-12);
  EXPECT_NEAR(naive.exposed_s(), 1.1, 1e-12);
  EXPECT_DOUBLE_EQ(naive.sent_bytes, 150e6);
  const PredictedStep flat =
      predict_step(kTimes, traffic_of(ParallelStrategy::flat, HUGE_VAL), simple_time);
  EXPECT_EQ(flat.collectives, 1);
  EXPECT_NEAR(flat.step_s, 3.1 + 1.01, 1e-12);
}

TEST(PredictedStep, ThatOverlapsExposesTheLastBucketAlone) {
  // A gradient every 0.2 s, each communicated in 0.11 s: the last one is exposed.
  const PredictedStep each =
      predict_step(kTimes, traffic_of(ParallelStrategy::overlapped, 0), simple_time);
  EXPECT_NEAR(each.step_s, 3.1 + 0.11, 1e-12);
  // The first tensor, the next five, and four that are exposed.
  const PredictedStep three =
      predict_step(kTimes, traffic_of(ParallelStrategy::bucketed, 50e6), simple_time);
  EXPECT_EQ(three.collectives, 3);
  EXPECT_NEAR(three.step_s, 3.1 + 0.41, 1e-12);
}

TEST(PredictedStep, HidesLessWhereTheLastMicroBatchIsShort) {
  // Four micro-batches leave 0.5 s of backward for 1.1 s of communication that starts after 0.05 s.
  const PredictedStep step =
      predict_step(kTimes, traffic_of(ParallelStrategy::overlapped, 0, 4), simple_time);
  EXPECT_NEAR(step.step_s, 3.1 + 0.05 + 1.1 - 0.5, 1e-12);
  EXPECT_EQ(step.collectives, 10);  // once in a step
}

TEST(PredictedStep, OfShardsGathersWhatEachRankUpdated) {
  const PredictedStep step =
      predict_step(kTimes, traffic_of(ParallelStrategy::sharded, HUGE_VAL), simple_time);
  EXPECT_EQ(step.collectives, 2);
  EXPECT_NEAR(step.step_s, 3 + 0.51 + 0.025 + 0.51, 1e-12);
  EXPECT_DOUBLE_EQ(step.sent_bytes, 150e6);  // as many as an all-reduce
}

TEST(PredictedStep, OfFullShardsSendsHalfAsMuchMoreAndWaitsForTheFirstUnit) {
  const PredictedStep step =
      predict_step(kTimes, traffic_of(ParallelStrategy::fsdp, 0), simple_time);
  EXPECT_EQ(step.collectives, 30);
  EXPECT_DOUBLE_EQ(step.sent_bytes, 225e6);
  // Of forward the first gather is exposed; of backward the first gather and the last scatter.
  EXPECT_NEAR(step.step_s, 3 + 0.025 + 3 * 0.06, 1e-9);
  // Of two micro-batches each gathers, and the last one scatters.
  const PredictedStep cut =
      predict_step(kTimes, traffic_of(ParallelStrategy::fsdp, 0, 2), simple_time);
  EXPECT_EQ(cut.collectives, 50);
  EXPECT_DOUBLE_EQ(cut.sent_bytes, 375e6);
}

TEST(PredictedStep, IsNeverShorterThanEitherStreamNorLongerThanBoth) {
  std::mt19937 random(7);
  const auto number = [&](double most) {
    return most * static_cast<double>(random() % 1000) / 1e3;
  };
  for (int i = 0; i < 500; ++i) {
    std::vector<double> tensors(1 + random() % 30);
    for (double& bytes : tensors) bytes = 1 + number(1e7);
    const StepTimes times{number(1), number(2), number(0.3)};
    const StepTraffic traffic{.strategy = parallel_strategies()[random() % 6].strategy,
                              .gradients = buckets_of(tensors, number(3e7)),
                              .ranks = 2 + static_cast<int>(random() % 63),
                              .micro_batches = 1 + static_cast<int>(random() % 4)};
    const PredictedStep step =
        predict_step(times, traffic,
                     modelled_time(CollectiveAlgorithm::ring,
                                   {.inside = {number(1e-3), 1e7 + number(1e9)},
                                    .between = {number(1e-2), 1e7 + number(1e8)}},
                                   traffic.ranks));
    EXPECT_GE(step.step_s, std::max(step.compute_s, step.communication_s) - 1e-9);
    EXPECT_LE(step.step_s, step.compute_s + step.communication_s + 1e-9);
  }
}

TEST(Buckets, HoldEveryTensorInOrder) {
  const std::vector<double> tensors = {5, 5, 9, 30, 1, 2};
  const std::vector<GradientBucket> buckets = buckets_of(tensors, 10);
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_DOUBLE_EQ(buckets[0].bytes, 10);
  EXPECT_DOUBLE_EQ(buckets[1].bytes, 39);  // closed by the tensor with which it reaches its cap
  EXPECT_DOUBLE_EQ(buckets[2].bytes, 3);
  EXPECT_DOUBLE_EQ(buckets[0].ready, 10.0 / 52);
  EXPECT_DOUBLE_EQ(buckets[2].ready, 1);
  // The first one closes at a megabyte.
  EXPECT_EQ(buckets_of(std::vector<double>(6, 6e5), 25e6).size(), 2u);
  EXPECT_DOUBLE_EQ(buckets_of(std::vector<double>(6, 6e5), 25e6)[0].bytes, 1.2e6);
  EXPECT_EQ(buckets_of(std::vector<double>(6, 6e5), HUGE_VAL).size(), 1u);
}

TEST(Buckets, AreBestWhereTheLastOneCostsAsMuchAsAllOverheads) {
  const double bytes = 1e9, bandwidth = 10e9, overhead = 1e-4;
  const double best = best_bucket_bytes(bytes, bandwidth, overhead);
  EXPECT_DOUBLE_EQ(best, std::sqrt(1e9 * 10e9 * 1e-4));
  const auto exposed = [&](double bucket) {
    return bucket / bandwidth + bytes / bucket * overhead;
  };
  EXPECT_LT(exposed(best), exposed(best * 1.1));
  EXPECT_LT(exposed(best), exposed(best / 1.1));
}

// Seconds are bytes, so that a timeline can be read off.
double as_long_as_bytes(CollectiveKind, double bytes) {
  return bytes;
}

PredictedStep with_collectives(double compute_s, std::vector<StepCollective> collectives) {
  return predict_step(compute_s, std::move(collectives), 2, as_long_as_bytes);
}

StepCollective reduced(double seconds, double started_s, double needed_s) {
  return {.kind = CollectiveKind::all_reduce,
          .bytes = seconds,
          .started_s = started_s,
          .needed_s = needed_s};
}

TEST(StepsOfPlans, WaitForWhatTheyReadAndHideTheRest) {
  EXPECT_DOUBLE_EQ(with_collectives(10, {}).step_s, 10);
  EXPECT_DOUBLE_EQ(with_collectives(10, {reduced(3, 2, 6)}).step_s, 10) << "hidden";
  EXPECT_DOUBLE_EQ(with_collectives(10, {reduced(3, 5, 6)}).step_s, 12) << "one second is hidden";
  EXPECT_DOUBLE_EQ(with_collectives(10, {reduced(3, 4, 4), reduced(2, 7, 7)}).step_s, 15)
      << "nothing is";
  // The second one waits for the first, and both are read at the end.
  EXPECT_DOUBLE_EQ(with_collectives(10, {reduced(5, 8, 10), reduced(4, 9, 10)}).step_s, 17);
  // The first wait, of two seconds, gives the second one no more time: it starts later, too.
  EXPECT_DOUBLE_EQ(with_collectives(10, {reduced(3, 1, 2), reduced(4, 5, 7)}).step_s, 14);
  const PredictedStep both = with_collectives(10, {reduced(3, 1, 2), reduced(4, 5, 7)});
  EXPECT_DOUBLE_EQ(both.communication_s, 7);
  EXPECT_DOUBLE_EQ(both.exposed_s(), 4);
  EXPECT_EQ(both.collectives, 2);
  EXPECT_DOUBLE_EQ(both.sent_bytes, 7) << "two ranks send a buffer once";
}

}  // namespace
}  // namespace ridgeline

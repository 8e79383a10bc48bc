// Predicts the time of a training step on several ranks from the times of its computation and its
// collectives: one stream computes, another communicates, each in order.
//
//   predict_step({.forward_s = 1, .backward_s = 2, .optimizer_s = 0.1},
//                {.strategy = ParallelStrategy::bucketed,
//                 .gradients = buckets_of(tensor_bytes, 25e6), .ranks = 4},
//                modelled_time(CollectiveAlgorithm::ring, network, 4));
#pragma once

#include <span>
#include <vector>

#include "cost/communication.h"
#include "cost/parallel_strategy.h"

namespace ridgeline {

// Times of one rank and its part of the batch without communication. optimizer_s is for all
// parameters; it is divided by the ranks where each updates its shard only.
struct StepTimes {
  double forward_s = 0, backward_s = 0, optimizer_s = 0;
};

struct GradientBucket {
  double bytes = 0;
  double ready = 1;  // the fraction of backward after which it is complete
};

// Groups tensors, in the order in which backward finishes them, into buckets limited by
// bucket_cap(). Assumes that backward takes time in proportion to the bytes of tensors.
std::vector<GradientBucket> buckets_of(std::span<const double> tensor_bytes, double cap_bytes);

struct StepTraffic {
  ParallelStrategy strategy = ParallelStrategy::naive;
  // In the order of backward: one per tensor (naive, overlapped), one in all (flat), one per bucket
  // (bucketed, sharded), or one per unit (fsdp).
  std::vector<GradientBucket> gradients = {};
  int ranks = 2;
  // Per step. Gradients are communicated in the last one; fsdp gathers in each.
  int micro_batches = 1;
};

struct PredictedStep {
  double step_s = 0;
  double compute_s = 0;
  double communication_s = 0;  // of all collectives, hidden or not
  int collectives = 0;
  double sent_bytes = 0;  // minimum per rank, by bus_factor()

  double exposed_s() const { return step_s - compute_s; }
};
PredictedStep predict_step(const StepTimes& times, const StepTraffic& traffic,
                           const CollectiveTime& time_of);

// A collective of a step that ran without communication. Times are in seconds since the beginning
// of the step: when its operand was ready, and when its result was read.
struct StepCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;  // of the whole buffer
  double started_s = 0, needed_s = 0;
};
// Predicts the same step with communication: collectives run one after another, in the order of
// their start, and readers of a result wait for it.
PredictedStep predict_step(double compute_s, std::vector<StepCollective> collectives, int ranks,
                           const CollectiveTime& time_of);

// The bucket size that minimizes exposed time, which is the time of the last bucket,
// bytes / count / bandwidth, plus count times the overhead: sqrt(bytes bandwidth overhead).
// The bandwidth is that of the algorithm, in bytes of buffers per second.
double best_bucket_bytes(double bytes, double bytes_per_s, double overhead_s);

}  // namespace ridgeline

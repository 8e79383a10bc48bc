// The time of a training step of several ranks, from the time of its computation and that of its
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

// Of one rank with its part of the batch, as long as nothing is communicated. The optimizer's is
// that of all parameters; of ranks that update their shard alone, each takes its part of it.
struct StepTimes {
  double forward_s = 0, backward_s = 0, optimizer_s = 0;
};

// Gradients that are communicated by one collective.
struct GradientBucket {
  double bytes = 0;
  double ready = 1;  // the part of backward after which it is complete
};

// Tensors in the order in which backward finishes them, in buckets that close by bucket_cap().
// Backward is taken to spend its time on tensors by their bytes.
std::vector<GradientBucket> buckets_of(std::span<const double> tensor_bytes, double cap_bytes);

struct StepTraffic {
  ParallelStrategy strategy = ParallelStrategy::naive;
  // In the order of backward: one for each tensor (naive, overlapped), one for all (flat), or more;
  // of fsdp one for each unit that is gathered at a time.
  std::vector<GradientBucket> gradients = {};
  int ranks = 2;
  // Micro-batches of a step. Gradients are communicated in the last one; fsdp gathers in each.
  int micro_batches = 1;
};

struct PredictedStep {
  double step_s = 0;
  double compute_s = 0;
  double communication_s = 0;  // of all collectives, hidden or not
  int collectives = 0;
  double sent_bytes = 0;  // by a rank at least, by bus_factor()

  double exposed_s() const { return step_s - compute_s; }
};
PredictedStep predict_step(const StepTimes& times, const StepTraffic& traffic,
                           const CollectiveTime& time_of);

// A collective of a step that has run without communication: when its operand was there and when
// its result was read, in seconds behind the beginning of the step.
struct StepCollective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;  // of the whole buffer
  double started_s = 0, needed_s = 0;
};
// The same step with communication: collectives run one after the other, in the order of their
// start, and whoever reads the result of one waits for it.
PredictedStep predict_step(double compute_s, std::vector<StepCollective> collectives, int ranks,
                           const CollectiveTime& time_of);

// The number of buckets that leaves least exposed when the last bucket, bytes / count / bandwidth,
// and an overhead per bucket are: count = sqrt(bytes / (bandwidth overhead)), so that a bucket has
// sqrt(bytes bandwidth overhead) bytes. `bandwidth` is the algorithm's: bytes of buffers per
// second.
double best_bucket_bytes(double bytes, double bytes_per_s, double overhead_s);

}  // namespace ridgeline

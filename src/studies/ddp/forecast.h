// Predicts the time of a step on several ranks from two measurements on these ranks: its
// computation without collectives, and its collectives without computation.
#pragma once

#include <functional>

#include "cost/parallel_step.h"
#include "dist/communicator.h"
#include "runtime/collectives.h"
#include "runtime/device.h"

namespace ridgeline {

struct StepForecast {
  double compute_alone_s = 0;  // of rank 0, while the others wait
  PredictedStep step;          // compute_s: of the slowest rank, all ranks at once
  // By how much hidden collectives slow computation down: the threads that communicate share the
  // host's processors with those that compute.
  double sharing = 1;
};

// A step that runs without communication; its collectives hold when they would have run.
struct SilentStep {
  std::function<double()> run_s;
  std::function<std::vector<CollectiveRun>()> collectives;
};

// How ranks of one host share its processors.
struct SharedHost {
  int ranks = 1;
  int threads = 0;  // of each rank, that compute; 0: a GPU computes
  int processors = 1;

  double sharing() const;
};

// Called by all ranks together: `host` synchronises them, `collectives` works on device memory.
StepForecast forecast_step(Communicator& host, Communicator& collectives, Device& device,
                           const SilentStep& silent, const SharedHost& shared);

}  // namespace ridgeline

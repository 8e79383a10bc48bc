// What a step of several ranks should take, by its computation without collectives and by its
// collectives without computation, both of them measured on these ranks just before.
#pragma once

#include <functional>

#include "cost/parallel_step.h"
#include "dist/communicator.h"
#include "runtime/collectives.h"
#include "runtime/device.h"

namespace ridgeline {

struct StepForecast {
  double compute_alone_s = 0;  // of rank 0 while the others wait
  PredictedStep step;          // its compute_s: of the slowest rank, all of them side by side
  // While collectives are hidden, computation takes so many times as long: ranks that communicate
  // with a thread of their own share the processors of their host with those that compute.
  double sharing = 1;
};

// A step that runs without communication; its collectives say when they would have been.
struct SilentStep {
  std::function<double()> run_s;
  std::function<std::vector<CollectiveRun>()> collectives;
};

// How ranks of one host share its processors.
struct SharedHost {
  int ranks = 1;
  int threads = 0;  // that compute, of each rank; 0: a GPU does
  int processors = 1;

  double sharing() const;
};

// All ranks call it together: `host` keeps them in step, `collectives` works on the memory of the
// device.
StepForecast forecast_step(Communicator& host, Communicator& collectives, Device& device,
                           const SilentStep& silent, const SharedHost& shared);

}  // namespace ridgeline

// One row of the profile study that a worker runs under its library's own profiler.
#pragma once

#include <filesystem>
#include <optional>

#include "profile/schedule.h"
#include "runtime/device.h"
#include "studies/peers/tensors.h"
#include "studies/peers/worker.h"
#include "studies/step_workload.h"

namespace ridgeline {

struct PeerProfileOptions {
  ProfileSchedule schedule = {};
  uint64_t seed = 42;
  double max_norm = 0;               // see AdamWOptions
  std::filesystem::path trace = {};  // where the library's own trace goes; empty: nowhere
};

// Fills in the results of `record`, with the metrics of our own rows. Shapes, dtypes and arithmetic
// are those of ours; values of a model's parameters are not, and nothing is verified. Whatever the
// worker refuses, and its end, are statuses. Empty when interrupted.
std::optional<Record> run_worker_profile(Worker& worker, WorkerTensors& tensors, Device& device,
                                         const StepWorkload& workload,
                                         const PeerProfileOptions& options, Record described);

}  // namespace ridgeline

// One row of the profile study that a worker runs under its library's profiler.
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
  std::filesystem::path trace = {};  // file for the library's own trace; empty: none
};

// Fills in the results of `record`, with the same metrics as our own rows; nullopt if interrupted.
// Shapes, dtypes and arithmetic equal ours; parameter values of a model do not, and nothing is
// verified. Refusals and the end of the worker become statuses.
std::optional<Record> run_worker_profile(Worker& worker, WorkerTensors& tensors, Device& device,
                                         const StepWorkload& workload,
                                         const PeerProfileOptions& options, Record described);

}  // namespace ridgeline

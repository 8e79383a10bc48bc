// Flags that say which models: sizes, lengths, precisions, modes, scenarios.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "studies/model/workload.h"

namespace ridgeline {

struct ModelAxes {
  std::vector<std::string> sizes = {"small"};
  std::vector<int64_t> context_lengths = {128, 256, 512, 1024};
  int64_t batch_size = 4;
  std::vector<std::string> precisions = {"fp32"};
  std::vector<std::string> modes = {"vanilla", "compiled"};
  std::vector<std::string> scenarios = {"forward", "fwd-bwd", "full-step"};
  ModelOverrides overrides = {};
  std::string optimizer = "cs336";
  double max_norm = 0;  // see AdamWOptions
};

// Gives the option of the sizes.
CLI::Option* add_model_axes(CLI::App& command, ModelAxes& axes);

// Throw usage errors for names that there are not.
std::vector<ModelWorkload> workloads_of(const ModelAxes& axes);
std::vector<Scenario> scenarios_of(const ModelAxes& axes);  // sorted, each once
AdamWOptions optimizer_of(const ModelAxes& axes);

// Throws a usage error that names the flag if no full step is among the scenarios.
void expect_full_step(const ModelAxes& axes, const char* flag);

// The flags that all workloads share, written so that they can be pasted, and those of one.
std::string to_command(const ModelAxes& axes);
std::string to_command(const ModelWorkload& workload);

}  // namespace ridgeline

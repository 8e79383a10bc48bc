// Flags that select models: sizes, context lengths, precisions, modes, scenarios.
#pragma once

#include <string>
#include <vector>

#include "models/gemma3_config.h"
#include "studies/flags.h"
#include "studies/model/workload.h"

namespace ridgeline {

struct ModelAxes {
  Words sizes = {"small"};
  std::vector<int64_t> context_lengths = {128, 256, 512, 1024};
  int64_t batch_size = 4;
  Words precisions = {"fp32"};
  Words modes = {"vanilla", "compiled"};
  Words scenarios = {"forward", "fwd-bwd", "full-step"};
  ModelOverrides overrides = {};
  std::string optimizer = "cs336";
  double max_norm = 0;                 // see AdamWOptions
  std::string loss_scale = "dynamic";  // or a number
  int64_t micro_batches = 1;
  int64_t checkpoint_blocks = 0;  // 0: none
};

void add_model_axes(Flags& flags, ModelAxes* axes);
// Only the flags of model sizes: --model-size, --context-length, --batch-size and the overrides.
void add_model_sizes(Flags& flags, ModelAxes* axes);

// --accumulate: the number of micro-batches in the batch of a step.
void add_accumulate(Flags& flags, int64_t* micro_batches);

// These throw usage errors for unknown names.
std::vector<ModelWorkload> workloads_of(const ModelAxes& axes);
std::vector<Scenario> scenarios_of(const ModelAxes& axes);  // sorted, each once
AdamWOptions optimizer_of(const ModelAxes& axes);

// Throws a usage error that names the flag if no full step is among the scenarios.
void expect_full_step(const ModelAxes& axes, const char* flag);

// Return flags that can be pasted: those that all workloads share, and those of one workload.
std::string to_command(const ModelAxes& axes, ModelPrecision precision);
std::string to_command(const ModelOverrides& overrides);
std::string to_command(const ModelWorkload& workload);
std::string to_command(const ModelWorkload& workload, std::string_view implementation);

// Throws a usage error for a --context-length beyond the positions of the model.
void expect_positions(const Gemma3Config& config, int64_t context_length);

}  // namespace ridgeline

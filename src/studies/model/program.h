// How the model study traces and compiles a model, and the memory that the result needs.
#pragma once

#include "compile/executable.h"
#include "studies/memory/model.h"
#include "studies/model/workload.h"

namespace ridgeline {

Trace model_trace(const ModelWorkload& workload, Scenario scenario,
                  const AdamWOptions& optimizer = {});
// Adds loss scaling if the precision needs it, and removes it otherwise.
AdamWOptions optimizer_of(const ModelWorkload& workload, AdamWOptions optimizer);
// The options for the workload's mode and precision.
CompileOptions model_options(const ModelWorkload& workload);
// Also selects the algorithm for attention's gradients on this device.
CompileOptions model_options(const ModelWorkload& workload, const Device& device);

// Returns the scenario of an executable that was compiled from a model_trace().
Scenario scenario_of(const Executable& executable);
// Live memory at the predicted peak; nothing is run.
ModelMemory model_memory(const Executable& executable);

}  // namespace ridgeline

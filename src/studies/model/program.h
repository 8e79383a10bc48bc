// What the transformer study gives to the front door, and what it asks of the result.
#pragma once

#include "compile/executable.h"
#include "studies/memory/model.h"
#include "studies/model/workload.h"

namespace ridgeline {

Trace model_trace(const ModelWorkload& workload, Scenario scenario,
                  const AdamWOptions& optimizer = {});
// With a scaled loss where the precision needs one, and only there.
AdamWOptions optimizer_of(const ModelWorkload& workload, AdamWOptions optimizer);
// The workload's mode and precision.
CompileOptions model_options(const ModelWorkload& workload);
// Besides, gradients of attention as the device takes them.
CompileOptions model_options(const ModelWorkload& workload, const Device& device);

// Of an executable that was made of a model_trace().
Scenario scenario_of(const Executable& executable);
// What lives in the worst moment, without running anything.
ModelMemory model_memory(const Executable& executable);

}  // namespace ridgeline

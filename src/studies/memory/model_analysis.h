// The memory of whole models for people and for scripts: breakdown, growth, and what would change
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/terminal/table.h"
#include "runtime/device.h"
#include "studies/memory/attention.h"
#include "studies/memory/model.h"
#include "studies/model/workload.h"

namespace ridgeline {

// One model in one mode and scenario.
struct ModelMemoryRow {
  ModelWorkload workload;
  Scenario scenario = Scenario::full_step;
  ModelMemory memory;
  std::optional<MeasuredMemory> measured = {};
};

// As `ridgeline model` would run it on this device within its budget; nothing is run.
ModelMemoryRow predict_memory(const ModelWorkload& workload, Scenario scenario, Device& device,
                              const AdamWOptions& optimizer);

// Of rows of one size, context and precision: a breakdown of each, how both modes grow with the
// context in the largest scenario, and what flash attention and recomputation change.
std::string model_memory_analysis(const std::vector<ModelMemoryRow>& rows, Device& device,
                                  const AdamWOptions& optimizer);

// A row each, in bytes.
Table model_memory_csv(const std::vector<ModelMemoryRow>& rows, Bytes budget);

}  // namespace ridgeline

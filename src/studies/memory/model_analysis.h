// The memory of whole models as text and CSV: breakdown, growth with the context, and alternatives.
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
  MemoryFacts measured = {};
};

// Predicts the memory as `ridgeline model` would run the row on this device within its budget.
ModelMemoryRow predict_memory(const ModelWorkload& workload, Scenario scenario, Device& device,
                              const AdamWOptions& optimizer);

// For rows of one size, context and precision: a breakdown of each, the growth of vanilla and
// compiled with the context in the largest scenario, and the effect of flash attention,
// recomputation, checkpoints and micro-batches.
std::string model_memory_analysis(const std::vector<ModelMemoryRow>& rows, Device& device,
                                  const AdamWOptions& optimizer);

// One line per row, in bytes.
Table model_memory_csv(const std::vector<ModelMemoryRow>& rows, Bytes budget);

}  // namespace ridgeline

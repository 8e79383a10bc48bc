// The memory accounts of whole models that `ridgeline memory --model-size` prints and writes.
#pragma once

#include <optional>

#include "measure/record.h"
#include "studies/memory/attention.h"
#include "studies/model/flags.h"
#include "studies/study.h"

namespace ridgeline {

struct ModelAccountOptions {
  OutputFlags output = {};
  bool measure = false;  // runs a step of every row that fits
  bool dry_run = false;  // writes no files
};

// Throws Interrupted.
void account_models(StudyRun& run, const ModelAxes& axes, const ModelAccountOptions& options);

// Makes a record out of memory, not tried, if its predicted peak is above the budget.
void mark_above_budget(Record& record, const Device& device);

// Returns the measured memory of a row, or nullopt if it was not measured.
std::optional<MeasuredMemory> measured_memory(const Record& record);

}  // namespace ridgeline

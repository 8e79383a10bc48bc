// The memory accounts of whole models that `ridgeline memory --model-size` prints and writes.
#pragma once

#include "measure/record.h"
#include "studies/model/flags.h"
#include "studies/study.h"

namespace ridgeline {

// With `measure`, also runs a step of every row that fits. Throws Interrupted.
void account_models(StudyRun& run, const ModelAxes& axes, const SharedFlags& shared, bool measure);

// Makes a record out of memory, not tried, if its predicted peak is above the budget.
void mark_above_budget(Record& record, const Device& device);

}  // namespace ridgeline

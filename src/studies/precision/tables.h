// Tables, notes and the report section of the precision study.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per record, for flow one per stage; cells that a part does not have are empty: part, op,
// value_dtype, accumulator_dtype, length, magnitude, result, exact, total_error,
// representation_error, accumulation_error, cause, stalled_at, overflowed, model, autocast, stage,
// tensor, dtype, size, precision, implementation, context_length, batch_size, forward_ms,
// backward_ms, optimizer_ms, peak_mb, loss, loss_error, device, status, error, steps, loss_scale,
// skipped_steps, flushed_tensor, flushed_share.
Table precision_csv(const RecordRefs& records);

// The tables that have rows: 1000 x 0.01, errors by length, dtypes by stage, models, trainings.
std::vector<Table> precision_tables(const RecordRefs& records);

// The answers to the assignment's questions, computed from the records.
std::vector<std::string> precision_notes(const RecordRefs& records);

// What the sums show on accumulators and values; empty if they were not measured.
std::string precision_conclusion(const RecordRefs& records);

// The larger part of an error: "representation", "accumulation", "both" if neither is twice the
// other, or "none"; empty if the record has no error.
std::string cause_of(const Record& record);

ReportSection precision_section(const ReportContext& context);

}  // namespace ridgeline

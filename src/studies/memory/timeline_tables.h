// Tables and sentences about memory timelines: CSV, peaks, what is live at a peak, notes.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One line per row, in bytes.
Table timeline_csv(const RecordRefs& records);

// One line per model and implementation: the peak of each scenario, predicted and measured.
Table timeline_peaks(const RecordRefs& records);
// Of one record, at most `top` lines: groups of tensors at the peak, and the largest tensors.
Table held_at_peak(const Record& record, size_t top);
Table largest_tensors_of(const Record& record, size_t top);

// "2.7B context 512 batch 4 fp32", without scenario and mode.
std::string timeline_workload_name(const Record& record);

// "parameters 12.7 GiB, activations 20.4 GiB, optimizer state 25.4 GiB": the kinds of tensors at
// the peak, largest first, without negligible ones. Empty if the record does not have them.
std::string kinds_at_peak(const Record& record);

// Sentences on when the peak occurs and which tensor is allocated then, what each layer keeps, the
// largest tensors, and the residual stream; none for what the record does not have.
std::vector<std::string> timeline_answers(const Record& record);
// The effect of mixed precision, rows that were not measured or failed, and missing files.
std::vector<std::string> timeline_notes(const RecordRefs& records);

ReportSection timeline_section(const ReportContext& context);

}  // namespace ridgeline

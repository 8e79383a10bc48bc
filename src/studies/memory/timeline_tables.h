// Memory timelines as people read them: CSV, peaks side by side, what lives at a peak, sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One line per row, in bytes.
Table timeline_csv(std::span<const Record> records);

// One line per model and implementation: the peak of each scenario, predicted and measured.
Table timeline_peaks(std::span<const Record> records);
// Of one record, at most `top` lines: groups of tensors at the peak, and the largest of all.
Table held_at_peak(const Record& record, size_t top);
Table largest_tensors_of(const Record& record, size_t top);

// "2.7B context 512 batch 4 fp32", whatever scenario and mode.
std::string timeline_workload_name(const Record& record);
// "2.7B context 512 batch 4 fp32 full-step, vanilla".
std::string timeline_name(const Record& record);

// When the peak comes and what is made then, what each layer keeps, the largest tensors, the
// residual stream. None where the record does not carry it.
// "parameters 12.7 GiB, activations 20.4 GiB, optimizer state 25.4 GiB": what lives at the peak,
// the largest first, without what does not count; empty: the record does not say.
std::string kinds_at_peak(const Record& record);

std::vector<std::string> timeline_answers(const Record& record);
// What mixed precision changes, which rows were not measured or failed, files that are missing.
std::vector<std::string> timeline_notes(std::span<const Record> records);

// Of reports.
ReportSection timeline_section(const ReportContext& context);

}  // namespace ridgeline

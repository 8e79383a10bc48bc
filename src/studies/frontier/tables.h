// The out-of-memory frontier as people read it: CSV, a terminal table, sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per record: implementation, device, batch_size, heads, d_model, dtype, causal,
// memory_budget_mb, predicted_seq_len, seq_len, first_oom_seq_len, peak_memory_mb, probes,
// limited_by, status, error.
Table frontier_csv(std::span<const Record> records);

Table frontier_summary(std::span<const Record> records);

// How much further one implementation reaches than another, and where the model was wrong.
std::vector<std::string> frontier_notes(std::span<const Record> records);

// Of reports.
ReportSection frontier_section(const ReportContext& context);

}  // namespace ridgeline

// Workloads over time: one table per row and machine, one line per saved run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/history.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Oldest first; each line against the one before it, by the rule of compare for separate runs.
// Phases are lines of their own.
std::vector<Table> history_tables(std::span<const SavedRecord> records, const NoiseLookup& noise);

// The same as one table for scripts: every figure, and what identifies the row.
Table history_csv(std::span<const SavedRecord> records, const NoiseLookup& noise);

// The baselines there are: name, when, commit, rows.
Table baselines_table(std::span<const SavedRun> runs);

}  // namespace ridgeline

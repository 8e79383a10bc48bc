// Saved rows over time: one table per row, phase and machine, one line per saving.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/history.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Lists savings from the oldest on, each compared with the previous one by the rule of `compare`
// for separate runs.
std::vector<Table> history_tables(std::span<const SavedRecord> records, const NoiseLookup& noise);

// The same as one table for scripts, with columns that identify the row.
Table history_csv(std::span<const SavedRecord> records, const NoiseLookup& noise);

Table baselines_table(std::span<const SavedRun> runs);

}  // namespace ridgeline

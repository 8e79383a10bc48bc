// The history of saved rows: one line per row, phase and machine, in which each point is compared
// with the previous one by the rule of `compare` for separate runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/history.h"

namespace ridgeline {

// One phase of one saved record, and its comparison with the previous point of the line.
struct HistoryPoint {
  const SavedRecord* saved;
  const Series* series;                       // null: the row was not measured
  const SavedRecord* before = nullptr;        // null: this is the first, or not measured
  std::optional<RowComparison> against = {};  // the comparison with `before`
};

struct HistoryLine {
  std::string phase;
  std::vector<HistoryPoint> points;
};

// Merges the runs of each saving into one row.
std::vector<SavedRecord> saved_rows(std::span<const SavedRecord> records);

// Returns lines that point into `rows`. Rows of different machines never share a line.
std::vector<HistoryLine> history_lines(std::span<const SavedRecord> rows, const NoiseLookup& noise);

}  // namespace ridgeline

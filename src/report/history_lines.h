// Saved rows over time: one line per phase of a row and machine, each point judged against the one
// before it by the rule of compare for separate runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/history.h"

namespace ridgeline {

// One phase of one saved record, beside the one before it.
struct HistoryPoint {
  const SavedRecord* saved;
  const Series* series;                       // null: the row was not measured
  const SavedRecord* before = nullptr;        // null: this is the first, or not measured
  std::optional<RowComparison> against = {};  // the one before
};

struct HistoryLine {
  std::string phase;
  std::vector<HistoryPoint> points;
};

// The runs of one saving are one row. Lines point into them.
std::vector<SavedRecord> saved_rows(std::span<const SavedRecord> records);

// In the order of first sight. Rows of different machines never share a line.
std::vector<HistoryLine> history_lines(std::span<const SavedRecord> rows, const NoiseLookup& noise);

}  // namespace ridgeline

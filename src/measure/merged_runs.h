// Merges several fresh runs of a row into one record, leaving out disturbed ones.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// The fewest runs of a side for an estimate of their spread.
inline constexpr int kFewestRuns = 3;

// False if the disturbance was not recorded.
bool is_quiet(const Record& record);

// Returns the slower of the speeds before and after the samples; nullopt if none was recorded.
std::optional<ProcessorSpeed> speed_beside(const Record& record);

// Merges the runs of each row into one record, whose samples are the medians of the runs and whose
// processor speed is their median; its metrics, memory and errors are those of the run with the
// middle median of its first series. Leaves out disturbed runs, and runs whose processor speed
// differs from the median, as long as kFewestRuns others remain. If a run is not ok, the row is not
// either: it is that of the worst run, and its error says how many failed. Rows with one run are
// unchanged.
std::vector<Record> runs_merged(std::span<const Record> records);

}  // namespace ridgeline

// Several fresh runs of a row as one record, and what of a run says whether it counts.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// Runs of a side tell their spread from so many on.
inline constexpr int kFewestRuns = 3;

// Whether it says so; one that does not say is not quiet.
bool is_quiet(const Record& record);

// The slower of the looks before and after the samples; empty: there was none.
std::optional<ProcessorSpeed> speed_beside(const Record& record);

// The runs of each row as one record, whose samples are the medians of the runs and whose speed of
// processors is theirs in the median. Those that other work disturbed, or whose processors were not
// as fast as in the median, are left out where kFewestRuns others are there. Rows that ran once
// stay as they are.
std::vector<Record> runs_merged(std::span<const Record> records);

}  // namespace ridgeline

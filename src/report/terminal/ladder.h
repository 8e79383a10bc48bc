// The table of the ladder: launches, time and memory of each rung, and its speedups.
#pragma once

#include <string_view>

#include "measure/record_values.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Makes the table of "attention" or "model". Leaves out workloads with fewer than three measured
// rungs: the study's own table compares two.
Table ladder_table(const RecordRefs& records, std::string_view study);

}  // namespace ridgeline

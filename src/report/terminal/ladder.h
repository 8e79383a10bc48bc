// What each rung of the ladder brought: launches, time and memory, one below the other.
#pragma once

#include <span>
#include <string_view>

#include "measure/record.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Of "attention" or "model". Workloads of which fewer than three rungs were measured are left out:
// two stand side by side in the study's own table.
Table ladder_table(std::span<const Record> records, std::string_view study);

}  // namespace ridgeline

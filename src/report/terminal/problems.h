// Messages about lines of a results file that could not be read.
#pragma once

#include <string_view>
#include <vector>

#include "measure/read_results.h"
#include "measure/record.h"

namespace ridgeline {

inline constexpr const char* kWhereRecordsAre = "a study's records are in its .jsonl";

// Returns the records. Prints to stderr which lines of `where` are not records and what happens to
// them (`so`): the first few, or one sentence if no line is a record, as in a CSV file.
std::vector<Record> say_problems(ReadResult result, std::string_view where,
                                 std::string_view so = "passed over");

}  // namespace ridgeline

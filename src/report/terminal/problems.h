// What of a results file could not be read, in words.
#pragma once

#include <string_view>
#include <vector>

#include "measure/read_results.h"
#include "measure/record.h"

namespace ridgeline {

inline constexpr const char* kWhereRecordsAre = "a study's records are in its .jsonl";

// The records; says on stderr which lines of `where` are none and what follows (`so`): the first
// few of them, and one sentence where no line is one, as in a table.
std::vector<Record> say_problems(ReadResult result, std::string_view where,
                                 std::string_view so = "passed over");

}  // namespace ridgeline

// Where the other side of a comparison comes from: a results file, or a baseline of the history.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "measure/history.h"
#include "measure/read_results.h"
#include "measure/record.h"

namespace ridgeline {

// Null: nothing was saved there yet.
std::unique_ptr<History> history_if_any(const std::filesystem::path& results_dir);

// The records; says on stderr which lines of `where` are none and what follows (`so`): the first
// few of them, and one sentence where no line is one, as in a table.
std::vector<Record> say_problems(ReadResult result, std::string_view where,
                                 std::string_view so = "passed over");

// The same of a file. Throws a usage error where it holds no record.
std::vector<Record> read_side(const std::filesystem::path& path);

// The same of a baseline; throws a usage error where there is none of this name.
std::vector<Record> read_baseline(const std::string& name, const History* history,
                                  const std::filesystem::path& results_dir);

}  // namespace ridgeline

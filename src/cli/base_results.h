// Where the other side of a comparison comes from: a results file, or a baseline of the history.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "measure/history.h"
#include "measure/record.h"

namespace ridgeline {

// Null: nothing was saved there yet.
std::unique_ptr<History> history_if_any(const std::filesystem::path& results_dir);

// The records of a file; says which lines are none. Throws a usage error where it holds no record.
std::vector<Record> read_side(const std::filesystem::path& path);

// The same of a baseline; throws a usage error where there is none of this name.
std::vector<Record> read_baseline(const std::string& name, const History* history,
                                  const std::filesystem::path& results_dir);

}  // namespace ridgeline

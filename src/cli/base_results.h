// Reads one side of a comparison: a results file, or a baseline of the history; saves baselines.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "measure/history.h"
#include "measure/record.h"

namespace ridgeline {

// Opens the history; null: there is none yet.
std::unique_ptr<History> history_if_any(const std::filesystem::path& results_dir);

// Saves records as a baseline of the history of a results directory, and says so.
void save_baseline(History& history, const std::string& name, const std::vector<Record>& records,
                   const std::filesystem::path& results_dir);

// Returns the records of a file and reports invalid lines. Throws a usage error if it has no
// record.
std::vector<Record> read_side(const std::filesystem::path& path);

// Does the same for a baseline; throws a usage error if none has this name.
std::vector<Record> read_baseline(const std::string& name, const History* history,
                                  const std::filesystem::path& results_dir);

}  // namespace ridgeline

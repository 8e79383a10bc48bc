#include "cli/base_results.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/print.h"
#include "report/record_cells.h"
#include "report/terminal/problems.h"

namespace ridgeline {
namespace fs = std::filesystem;

std::unique_ptr<History> history_if_any(const fs::path& results_dir) {
  const fs::path file = History::file_in(results_dir);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return nullptr;
  return std::make_unique<History>(file, Database::Open::existing);
}

void save_baseline(History& history, const std::string& name, const std::vector<Record>& records,
                   const fs::path& results_dir) {
  say("saved {} as baseline '{}' in {}",
      counted(static_cast<size_t>(history.save(name, records).rows), "record"), name,
      History::file_in(results_dir).string());
}

std::vector<Record> read_side(const fs::path& path) {
  ReadResult result = read_results(path);
  if (result.records.empty())
    throw Error(ErrorKind::usage, fmt::format("'{}' holds no record", path.string()),
                kWhereRecordsAre);
  return say_problems(std::move(result), path.string());
}

std::vector<Record> read_baseline(const std::string& name, const History* history,
                                  const fs::path& results_dir) {
  if (!history)
    throw Error(ErrorKind::usage,
                fmt::format("no baseline is saved in '{}'", History::file_in(results_dir).string()),
                "a study with --save-baseline NAME saves one");
  std::vector<Record> records =
      say_problems(history->baseline(name), fmt::format("baseline '{}'", name));
  if (records.empty())
    throw Error(ErrorKind::usage, fmt::format("no row of baseline '{}' can be read", name),
                "save it again with --save-baseline");
  return records;
}

}  // namespace ridgeline

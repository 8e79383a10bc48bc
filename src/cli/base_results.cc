#include "cli/base_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/print.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhereRecordsAre = "a study's records are in its .jsonl";

}  // namespace

std::unique_ptr<History> history_if_any(const fs::path& results_dir) {
  const fs::path file = History::file_in(results_dir);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return nullptr;
  return std::make_unique<History>(file, Database::Open::existing);
}

std::vector<Record> say_problems(ReadResult result, std::string_view where, std::string_view so) {
  constexpr size_t kShown = 5;
  const std::vector<LineProblem>& problems = result.problems;
  if (result.records.empty() && problems.size() > 1) {
    say("{} holds no record (line {}: {}); {}", where, problems[0].line_number, problems[0].reason,
        kWhereRecordsAre);
    return {};
  }
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    say("{} line {}: {}; {}", where, problems[i].line_number, problems[i].reason, so);
  if (problems.size() > kShown) say("and {} more lines of {}", problems.size() - kShown, where);
  return std::move(result.records);
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

#include "measure/child_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "measure/read_results.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr double kSecondsToEnd = 60;
constexpr Bytes kLongestReport = {int64_t{16} << 20};  // one line holds all samples of a turn

Command with_results(Command command, const fs::path& directory) {
  const fs::path program = find_program(command.front());
  if (program.empty())
    throw Error(ErrorKind::usage, fmt::format("cannot run '{}'", printable(command.front())),
                "give the path of a ridgeline program");
  command.front() = program.string();
  command.insert(command.end(), {"--results-dir", directory.string()});
  return command;
}

// Returns the results file under `directory`, or an empty path unless there is exactly one.
fs::path find_records(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.path().extension() == ".jsonl") found.push_back(entry.path());
  return found.size() == 1 ? found.front() : fs::path();
}

// Whether a study that ends like this has recorded all of its rows. Its exit code is nonzero after
// a wrong result, and where no row is supported.
bool is_complete(const std::string& ending, const std::vector<Record>& records) {
  const auto is_code = [&](int code) { return ending == fmt::format("exit code {}", code); };
  return is_code(0) || is_code(exit_code(ErrorKind::wrong_result)) ||
         (is_code(exit_code(ErrorKind::unsupported)) &&
          std::ranges::all_of(
              records, [](const Record& record) { return record.status == Status::unsupported; }));
}

}  // namespace

ChildStudy::ChildStudy(const Command& command, Options options)
    : options_(std::move(options)),
      name_(printable(command.front())),
      child_(with_results(command, directory_.path()),
             {.environment = {
                  {kTurnsVariable, std::string(options_.lead == Lead::turns ? "1" : "")}}}) {}

void ChildStudy::give(const Turn& turn) {
  child_.write_line(turn_line(turn));  // a failed write means that the child ended: next_report()
}

std::optional<TurnReport> ChildStudy::next_report() {
  while (true) {
    const ChildProcess::Reply reply =
        child_.read_line({.seconds = options_.patience_s,
                          .interrupted = options_.interrupted,
                          .most_bytes = static_cast<size_t>(kLongestReport.count)});
    if (reply.outcome == ChildProcess::Outcome::too_slow)
      throw Error(
          ErrorKind::environment,
          fmt::format("'{}' has said nothing for {}", name_, format_seconds(options_.patience_s)),
          "give smaller sizes");
    if (reply.outcome == ChildProcess::Outcome::too_long)
      throw Error(
          ErrorKind::environment,
          fmt::format("'{}' printed a line longer than {}", name_, to_string(kLongestReport)),
          "give the path of a ridgeline program");
    interrupted_ = interrupted_ || reply.outcome == ChildProcess::Outcome::interrupted;
    if (reply.outcome != ChildProcess::Outcome::line) return std::nullopt;
    if (auto report = parse_report(reply.line)) return report;
  }
}

std::optional<std::vector<Record>> ChildStudy::finish() {
  while (next_report()) {
  }
  if (interrupted_) return std::nullopt;
  const std::string ending = child_.end(kSecondsToEnd);
  const fs::path records = find_records(directory_.path());
  const std::string& errors = child_.last_errors();
  const std::string said = printable(errors.substr(0, errors.find('\n')), 400);
  if (records.empty()) {
    // The user gave the child's arguments, so this is a usage error here as well.
    if (ending == fmt::format("exit code {}", exit_code(ErrorKind::usage)))
      throw Error(ErrorKind::usage, fmt::format("'{}' refused its arguments: {}", name_, said),
                  "correct the study or its flags");
    throw Error(ErrorKind::environment,
                fmt::format("'{}' ended with {} and no records: {}", name_, ending, said));
  }
  ReadResult result = read_results(records);
  if (!result.problems.empty())
    throw Error(ErrorKind::environment, fmt::format("'{}' wrote a record that cannot be read: {}",
                                                    name_, result.problems.front().reason));
  if (!is_complete(ending, result.records))
    throw Error(ErrorKind::environment, fmt::format("'{}' ended with {} after {} records: {}",
                                                    name_, ending, result.records.size(), said));
  return std::move(result.records);
}

}  // namespace ridgeline

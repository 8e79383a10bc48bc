#include "measure/history.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

// The value of the column `pairing` for floors of single runs; other values are ignored.
constexpr std::string_view kFloorOfRuns = "runs";

constexpr int64_t kHistoryVersion = 1;

constexpr std::string_view kTables[] = {
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, saved_at TEXT NOT NULL, "
    "git_commit TEXT NOT NULL)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES runs(id), "
    "row_key TEXT NOT NULL, time TEXT NOT NULL, line TEXT NOT NULL)",
    "CREATE INDEX records_by_run ON records (run)",
    "CREATE TABLE noise (id INTEGER PRIMARY KEY, time TEXT NOT NULL, fingerprint TEXT NOT NULL, "
    "device TEXT NOT NULL, pairing TEXT NOT NULL, row_key TEXT NOT NULL, phase TEXT NOT NULL, "
    "fraction REAL NOT NULL, comparisons INTEGER NOT NULL)",
};

int64_t version_of(const Database& database) {
  Statement statement = database.prepare("PRAGMA user_version");
  return statement.step() ? statement.integer(0) : 0;
}

int64_t tables_in(const Database& database) {
  Statement statement = database.prepare("SELECT count(*) FROM sqlite_master");
  return statement.step() ? statement.integer(0) : 0;
}

SavedRun run_from(const Statement& statement) {
  return {statement.integer(0), statement.text(1), statement.text(2), statement.text(3),
          statement.integer(4)};
}

constexpr std::string_view kRuns =
    "SELECT id, name, saved_at, git_commit, (SELECT count(*) FROM records WHERE run = runs.id) "
    "FROM runs ORDER BY id";

}  // namespace

void check_baseline_name(const std::string& name) {
  if (name.empty() || name.size() > 100 || printable(name, 200) != name)
    throw Error(
        ErrorKind::usage,
        fmt::format("'{}' is not a name for a baseline: expected up to 100 plain characters",
                    printable(name, 60)));
}

std::filesystem::path History::file_in(const std::filesystem::path& results_dir) {
  return results_dir / "history.sqlite";
}

History::History(const std::filesystem::path& file, Database::Open open) : database_(file, open) {
  if (open == Database::Open::create) {
    Transaction transaction(database_);
    if (version_of(database_) == 0 && tables_in(database_) == 0) {
      for (const std::string_view table : kTables) database_.run(table);
      database_.run(fmt::format("PRAGMA user_version = {}", kHistoryVersion));
    }
    transaction.commit();
  }
  if (version_of(database_) != kHistoryVersion)
    throw Error(ErrorKind::usage,
                fmt::format("'{}' has version {}: expected a history of version {}", file.string(),
                            version_of(database_), kHistoryVersion),
                "give another --results-dir, or use the program that wrote it");
}

SavedRun History::save(const std::string& name, std::span<const Record> records) {
  check_baseline_name(name);
  if (records.empty())
    throw Error(ErrorKind::usage, fmt::format("no records to save as '{}'", name));
  SavedRun run{.name = name,
               .saved_at = utc_now(),
               .git_commit = records.front().build.git_commit,
               .rows = static_cast<int64_t>(records.size())};
  Transaction transaction(database_);
  database_.run("INSERT INTO runs (name, saved_at, git_commit) VALUES (?, ?, ?)",
                {run.name, run.saved_at, run.git_commit});
  run.id = database_.last_insert_id();
  for (const Record& record : records) {
    const std::string key = workload_key(record), line = to_line(record);
    database_.run("INSERT INTO records (run, row_key, time, line) VALUES (?, ?, ?, ?)",
                  {run.id, key, record.time, line});
  }
  transaction.commit();
  return run;
}

std::vector<SavedRun> History::runs() const {
  std::vector<SavedRun> out;
  for (Statement statement = database_.prepare(kRuns); statement.step();)
    out.push_back(run_from(statement));
  return out;
}

ReadResult History::baseline(const std::string& name) const {
  std::optional<SavedRun> newest;
  std::set<std::string> names;
  for (const SavedRun& run : runs()) {
    names.insert(run.name);
    if (run.name == name) newest = run;
  }
  if (!newest)
    throw Error(
        ErrorKind::usage,
        fmt::format("no baseline is called '{}': there {}", printable(name, 60),
                    names.empty() ? "is none" : fmt::format("are {}", fmt::join(names, ", "))),
        "a study with --save-baseline NAME saves one");
  return read(*newest);
}

ReadResult History::read(const SavedRun& run) const {
  ReadResult out;
  Statement statement =
      database_.prepare("SELECT line FROM records WHERE run = ? ORDER BY id", {run.id});
  for (int64_t row = 1; statement.step(); ++row) {
    ParsedLine parsed = parse_line(statement.text(0));
    if (parsed.record) {
      out.records.push_back(std::move(*parsed.record));
    } else {
      parsed.problem.line_number = row;
      out.problems.push_back(std::move(parsed.problem));
    }
  }
  return out;
}

void History::save_noise(const MeasuredNoise& noise) {
  database_.run(
      "INSERT INTO noise (time, fingerprint, device, pairing, row_key, phase, fraction, "
      "comparisons) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      {utc_now(), noise.fingerprint, noise.device, kFloorOfRuns, noise.row_key, noise.phase,
       noise.fraction, int64_t{noise.runs}});
}

std::optional<NoiseFloor> History::noise(const Record& record, std::string_view phase) const {
  const std::string key = workload_key(record);  // must outlive the statement
  Statement found = database_.prepare(
      "SELECT fraction, comparisons FROM noise WHERE fingerprint = ? AND device = ? AND pairing = "
      "? AND row_key = ? AND phase = ? ORDER BY id DESC LIMIT 1",
      {record.machine.fingerprint, record.device, kFloorOfRuns, key, phase});
  if (!found.step() || found.integer(1) < kFewestFloorRuns || !(found.number(0) > 0))
    return std::nullopt;
  return NoiseFloor{found.number(0), fmt::format("{} runs", found.integer(1))};
}

NoiseLookup noise_of(const History* history) {
  return [history](const Record& record, std::string_view phase) {
    return history ? history->noise(record, phase) : std::optional<NoiseFloor>();
  };
}

}  // namespace ridgeline

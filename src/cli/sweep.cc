#include "cli/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/file_io.h"
#include "base/machine_limits.h"
#include "base/print.h"
#include "base/printable.h"
#include "cli/base_results.h"
#include "cli/interrupt.h"
#include "cli/sweep_group.h"
#include "cli/turn_options.h"
#include "measure/compare.h"
#include "measure/history.h"
#include "measure/interleave.h"
#include "measure/read_results.h"
#include "measure/record_json.h"
#include "measure/results_file.h"
#include "measure/turns.h"
#include "report/terminal/problems.h"
#include "report/terminal/table.h"
#include "studies/shared_flags.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

struct Sweep {
  const std::vector<StudyRow>& rows;
  const StudyRun& run;
  const Study& study;
  const SharedFlags& flags = study.shared;
  fs::path records = run.file("jsonl");  // its table is next to it (.csv)
  fs::path array = run.info.writes_array ? run.file("json") : fs::path();  // of all records
};

fs::path csv_of(const fs::path& records) {
  return fs::path(records).replace_extension(".csv");
}

// Renames earlier results and their table by the time of their last change, as results are never
// overwritten.
void rename_earlier_results(const fs::path& path) {
  std::error_code problem;  // ignored here; ResultsFile reports it
  if (fs::file_size(path, problem) == 0 || problem) return;
  const ResultsFile held(path, ResultsFile::Use::move);  // throws while another run writes it
  const auto changed = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(
          std::chrono::file_clock::to_sys(fs::last_write_time(path))));
  for (int attempt = 0;; ++attempt) {
    const fs::path aside =
        path.parent_path() / fmt::format("{}-{}{}{}", path.stem().string(), utc_text(changed),
                                         attempt > 0 ? fmt::format("-{}", attempt) : "",
                                         path.extension().string());
    if (fs::exists(aside)) continue;
    fs::rename(path, aside);
    fs::rename(csv_of(path), csv_of(aside), problem);  // if there is one
    say("kept the earlier results as {}", aside.string());
    return;
  }
}

// Whether a row that ran out of memory is predicted to fit the current budget.
bool fits_now(const Record& record, Bytes budget) {
  const std::optional<Bytes>& predicted = record.memory.predicted_peak;
  return record.status == Status::oom && predicted && *predicted <= budget;
}

// The rows of a results file, by workload_key().
struct HeldRows {
  std::map<std::string, Record> here;            // of this machine, to be kept
  std::map<std::string, std::string> elsewhere;  // fingerprints of the other machines
};

HeldRows held_rows(const Sweep& sweep, const std::vector<Record>& found) {
  const std::vector<StudyRow>& rows = sweep.rows;
  HeldRows held;
  for (Record& record : runs_merged(found)) {
    const std::string key = workload_key(record), machine = record.machine.fingerprint;
    if (!rows.empty() && machine == rows.front().described.machine.fingerprint)
      held.here.insert_or_assign(key, std::move(record));
    else
      held.elsewhere[key] = machine;
  }
  const Bytes budget = sweep.run.device.ledger().budget();
  std::erase_if(held.here, [&](const auto& entry) { return fits_now(entry.second, budget); });
  return held;
}

bool has_rows_to_keep(const Sweep& sweep) {
  std::error_code missing;
  return sweep.flags.resume && fs::exists(sweep.records, missing);
}

// Rows that are kept take no time.
std::vector<double> expected_seconds(const std::vector<StudyRow>& rows,
                                     const std::map<std::string, Record>& kept) {
  std::vector<double> expected_s;
  for (const StudyRow& row : rows)
    expected_s.push_back(kept.contains(workload_key(row.described)) ? 0 : row.expected_s);
  return expected_s;
}

// Adds the expected time of a sweep that has not run yet to the group.
void note_expected(SweepGroup& group, const Sweep& sweep) {
  HeldRows held;
  if (has_rows_to_keep(sweep)) held = held_rows(sweep, read_results(sweep.records).records);
  group.note(sweep.records, expected_seconds(sweep.rows, held.here));
}

// Returns the records of `rows` that the file holds, and prints how many are kept or run again.
std::map<std::string, Record> records_to_keep(const Sweep& sweep) {
  const std::vector<StudyRow>& rows = sweep.rows;
  if (rows.empty() || !has_rows_to_keep(sweep)) return {};
  auto [kept, elsewhere] = held_rows(
      sweep,
      say_problems(read_results(sweep.records), sweep.records.string(), "that row runs again"));
  const Record& here = rows.front().described;  // machine and build are the same in all rows
  int of_machine = 0, of_build = 0, of_this = 0, unchecked = 0, fewest = 0, most = 0;
  std::string machine, commit;
  for (const StudyRow& row : rows) {
    const std::string key = workload_key(row.described);
    if (const auto mine = kept.find(key); mine != kept.end()) {
      const int samples = mine->second.protocol.iterations;
      fewest = of_this == 0 ? samples : std::min(fewest, samples);
      most = std::max(most, samples);
      ++of_this;
      unchecked +=
          !sweep.flags.no_verify && mine->second.command.find(" --no-verify") != std::string::npos;
      if (mine->second.build == here.build) continue;
      ++of_build;
      commit = mine->second.build.git_commit;
    } else if (const auto other = elsewhere.find(key); other != elsewhere.end()) {
      ++of_machine;
      machine = other->second;
    }
  }
  if (of_this > 0)
    say("{} of {} rows are kept as they were measured, with {} samples each", of_this, rows.size(),
        fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most));
  if (of_machine > 0)
    say("{} rows were measured on another machine ({}) and run again on this one", of_machine,
        printable(machine, 20));
  if (unchecked > 0)
    say("{} of them were not checked (--no-verify); without --resume all rows run anew, and are",
        unchecked);
  if (of_build > 0)
    say("{} rows that are kept are of another build (commit {}); without --resume all rows run "
        "anew",
        of_build, printable(commit, 40));
  return kept;
}

// Checks that the table can be written. A missing results folder is created later, with its
// parents, and needs no check.
void check_beside(const fs::path& records) {
  std::error_code missing;
  if (!fs::exists(records.parent_path(), missing)) return;
  const fs::path csv = csv_of(records);
  const FileDescriptor pipe = check_writable(csv);
}

// The command line of this process without --runs and the flags for outputs, plus the fresh
// arguments.
Command own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Command command;
  constexpr std::string_view kTakeAValue[] = {"--runs", "--results-dir",   "--output", "-o",
                                              "--json", "--save-baseline", "--only"};
  bool skip = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string flag = word.starts_with("-o") ? "-o" : word.substr(0, word.find('='));
    const bool taken =
        std::find(std::begin(kTakeAValue), std::end(kTakeAValue), flag) != std::end(kTakeAValue);
    if (!std::exchange(skip, taken && flag == word) && !taken) command.push_back(word);
  }
  command.front() = own_program();
  command.insert(command.end(), fresh_arguments().begin(), fresh_arguments().end());
  return command;
}

// Runs all rows several times, each time in a fresh process: memory layout and the placement of
// threads vary between processes, not within one.
SweepResult run_in_fresh_processes(int runs, ResultsFile& file) {
  const Command command = own_command();
  SweepResult result;
  std::vector<Record> all;
  Progress progress(std::vector<double>(static_cast<size_t>(runs), 1.0), terminal_progress());
  for (int run = 1; run <= runs && !result.interrupted; ++run) {
    progress.begin(static_cast<size_t>(run - 1), fmt::format("run {} of {}", run, runs));
    std::optional<std::vector<Record>> records = run_alone(command, interrupted);
    result.interrupted = !records;
    if (!records) break;
    for (Record& record : *records) {
      record.run = run;
      file.append(record);
      all.push_back(std::move(record));
    }
  }
  progress.clear();
  if (result.interrupted) say("interrupted; the runs so far are in the results file");
  result.records = std::move(all);
  return result;
}

// Returns the error if a file could not be written.
std::optional<Error> write_tables(const Sweep& sweep, const std::vector<Record>& records) {
  if (records.empty()) return std::nullopt;
  try {
    const Table table = sweep.run.info.csv(records);
    write_table(csv_of(sweep.records), table);
    if (!sweep.array.empty()) write_file_atomically(sweep.array, to_array(records));
    write_output(sweep.flags.output, records, table);
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::vector<WrittenFile> files_of(const Sweep& sweep) {
  std::vector<WrittenFile> files = {{"the records", sweep.records},
                                    {"the table", csv_of(sweep.records)},
                                    {"--output", sweep.flags.output.table},
                                    {"--json", sweep.flags.output.json},
                                    {"the JSON", sweep.array}};
  if (!sweep.flags.results_dir.empty())
    files.push_back({"the history", History::file_in(sweep.flags.results_dir)});
  for (WrittenFile& file : sweep.study.also_written()) files.push_back(std::move(file));
  return files;
}

// Runs a row and adds what is known of the machine beside it. Returns nullopt if interrupted.
std::optional<Record> run_row(const StudyRow& row, DisturbanceWatch& watch) {
  std::optional<Record> record;
  try {
    record = row.run();
  } catch (const Interrupted&) {  // treated like a row without a record
  }
  if (!record || is_led()) return record;
  // Rows that other processes measured, such as ranks, have no speed of the processors yet.
  if (record->device == "cpu" && !record->series.empty() && !record->speed_after)
    record->speed_after = processor_speed(available_threads());
  record->disturbance = watch.row_done();
  return record;
}

// Runs all rows but the kept ones in this process.
SweepResult run_here(const Sweep& sweep, const std::map<std::string, Record>& kept,
                     ResultsFile& file) {
  const std::vector<StudyRow>& rows = sweep.rows;
  SweepResult result;
  std::optional<SweepGroup> alone;
  if (!SweepGroup::current()) alone.emplace();
  Progress& progress = SweepGroup::current()->enter(sweep.records, expected_seconds(rows, kept));
  DisturbanceWatch watch;
  try {
    for (size_t i = 0; i < rows.size() && !result.interrupted; ++i) {
      const auto found = kept.find(workload_key(rows[i].described));
      if (found != kept.end()) {
        result.records.push_back(found->second);
        progress.skip(i);
        continue;
      }
      progress.begin(i, rows[i].label);
      if (is_led()) report_to_leader({.kind = TurnReport::Kind::row, .index = i});
      std::optional<Record> record = run_row(rows[i], watch);
      if (record) {
        file.append(*record);
        result.records.push_back(std::move(*record));
      }
      result.interrupted = !record || interrupted();
    }
  } catch (...) {
    progress.clear();
    // The records so far are on disk; writes their tables if possible.
    write_tables(sweep, result.records);
    throw;
  }
  progress.clear();
  if (result.interrupted)
    say("interrupted after {} of {} rows; --resume goes on from here", result.records.size(),
        rows.size());
  return result;
}

}  // namespace

std::vector<std::string>& fresh_arguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

SweepResult run_sweep(const std::vector<StudyRow>& rows, const StudyRun& run, const Study& study) {
  const Sweep sweep{.rows = rows, .run = run, .study = study};
  const SharedFlags& flags = study.shared;
  if (SweepGroup* group = SweepGroup::current(); group && group->is_expecting()) {
    note_expected(*group, sweep);
    return {};
  }
  // Reports unusable names and files before hours of measuring, and before earlier results are
  // renamed.
  refuse_same_files(files_of(sweep));
  const std::vector<FileDescriptor> outputs = check_output(flags.output);
  check_beside(sweep.records);
  std::optional<History> history;
  if (!flags.save_baseline.empty()) {
    check_baseline_name(flags.save_baseline);
    history.emplace(History::file_in(flags.results_dir), Database::Open::create);
  }
  const std::map<std::string, Record> kept = records_to_keep(sweep);
  if (!flags.resume) rename_earlier_results(sweep.records);
  ResultsFile file(sweep.records);
  if (file.repair()) say("{}", *file.repair());
  SweepResult result =
      flags.runs > 1 ? run_in_fresh_processes(flags.runs, file) : run_here(sweep, kept, file);
  if (history && !result.interrupted && !result.records.empty())
    save_baseline(*history, flags.save_baseline, result.records, flags.results_dir);
  result.records = runs_merged(result.records);
  result.unwritten = write_tables(sweep, result.records);
  return result;
}

void refuse_same_files(const std::vector<WrittenFile>& files) {
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (!files[i].path.empty() && !files[j].path.empty() &&
          is_same_file(files[i].path, files[j].path))
        throw Error(ErrorKind::usage,
                    fmt::format("{} '{}' is the file of {} ('{}')", files[i].what,
                                files[i].path.string(), files[j].what, files[j].path.string()),
                    "give it a file of its own");
}

int exit_code(const SweepResult& result) {
  if (result.unwritten) throw *result.unwritten;
  if (result.interrupted) return kInterruptedExit;
  const auto has = [](Status status) {
    return [status](const Record& record) { return record.status == status; };
  };
  const std::vector<Record>& records = result.records;
  if (std::any_of(records.begin(), records.end(), has(Status::wrong)))
    return exit_code(ErrorKind::wrong_result);
  if (!records.empty() && std::all_of(records.begin(), records.end(), has(Status::unsupported)))
    return exit_code(ErrorKind::unsupported);
  return 0;
}

}  // namespace ridgeline

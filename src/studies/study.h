// The interface of a study: flags, rows on a device, and tables of their records. The driver in
// cli/ runs any study; studies.cc lists them all.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/protocol.h"
#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"
#include "runtime/device.h"
#include "studies/flags.h"
#include "studies/row.h"
#include "studies/shared_flags.h"

namespace ridgeline {

struct StudyInfo;

// What the driver passes to a study.
struct StudyRun {
  const StudyInfo& info;
  Device& device;
  Protocol protocol;
  Record blank;                            // facts that all rows share: machine and build
  Json settings;                           // of the device, which distinguish rows
  std::filesystem::path results_dir;       // of all studies
  std::filesystem::path folder;            // for the files of this study
  std::string device_words;                // " --device cpu --threads 2", ready to paste
  std::function<bool()> interrupted = {};  // polled between samples
  StageHook stage = {};                    // called with what a row does next
  // Hides the progress line, for rows that print while they run.
  std::function<void()> hide_progress = {};

  std::filesystem::path file(std::string_view ending) const;  // in `folder`: "gemm.csv"
};

// A row that can be run.
struct StudyRow {
  Record described;                            // the row's identity and predictions
  std::string label;                           // for the progress line
  double expected_s = 1;                       // run time, for the estimate of the time left
  std::function<std::optional<Record>()> run;  // nullopt: interrupted
  int64_t peaks = 1;  // how often the device's memory holds the predicted peak: once per rank
};

// A file that a run writes, as messages name it: "--output", "the records".
struct WrittenFile {
  std::string_view what;
  std::filesystem::path path;  // empty: none
};

// How `ridgeline study` sets up one of its studies.
struct StudySetup {
  const Device& device;
  std::string time_budget;  // per row, "1s"
  int attempt = 0;          // 0: the usual size; higher: smaller sizes
};

class Study {
 public:
  virtual ~Study() = default;

  SharedFlags shared;

  // Declares its own flags and those of `shared` that it has, in the order of --help.
  virtual void declare(Flags& flags) = 0;
  virtual std::string list() const { return {}; }  // the text of --list
  // Throws errors that are known before a device is opened.
  virtual void check() {}
  // Does what must precede opening the device. Called after check(), but not for --dry-run.
  virtual void before_device() {}
  // Runs something else than a sweep over rows and returns its exit code; nullopt: it has rows.
  virtual std::optional<int> run_instead(StudyRun&) { return std::nullopt; }

  virtual std::vector<StudyRow> rows(StudyRun&) { return {}; }
  // The table of --dry-run: predicted memory, and the columns of planned_cells().
  virtual Table planned(const StudyRun& run, const std::vector<StudyRow>& rows);
  using NamedCells = std::vector<std::pair<std::string, std::string>>;
  virtual NamedCells planned_cells(const StudyRow&) const { return {}; }
  // Prints the results: by default, StudyInfo's table and notes.
  virtual void show(StudyRun& run, const std::vector<StudyRow>& rows,
                    const std::vector<Record>& records);
  // Prints what follows the paths of files, or planned(): --dry-run has no records.
  virtual void show_last(StudyRun&, const std::vector<StudyRow>&, const std::vector<Record>&) {}

  // Files that its rows write.
  virtual std::vector<WrittenFile> also_written() const { return {}; }
  // The user's own implementation, whose failure fails the run; empty: there is none.
  virtual std::string own_implementation() const { return {}; }

  // Sets its flags for `ridgeline study`. Returns false if it has no size for this attempt.
  virtual bool set_up(const StudySetup&) { return false; }
  virtual bool fits(Device&) const { return true; }
};

struct StudyInfo {
  std::string_view name;  // of its command, results folder and records
  std::string_view summary;
  std::string_view examples;
  std::unique_ptr<Study> (*make)();
  // How its records are shown: as CSV, and on the terminal as a title, a table and notes.
  std::function<Table(std::span<const Record>)> csv = {};
  std::string_view title = {};
  std::function<Table(std::span<const Record>)> table = {};
  std::function<std::vector<std::string>(std::span<const Record>)> notes = {};
  std::string_view row_word = "row";       // what --dry-run calls its rows
  std::string_view in_reports = {};        // what its rows are called there: "Matrix products"
  std::vector<MakeSection> sections = {};  // of reports
  bool checks_values = true;               // false: its rows compute nothing that could be wrong
  // Settings that `compare` treats as axes, like sizes: rows that differ in one are not compared.
  std::vector<std::string> setting_axes = {};
  bool takes_turns = false;   // rows are timed, so `compare --interleave` can lead them
  bool writes_array = false;  // also writes the records as one JSON array
  // Its position in `ridgeline study`, from 1 on; 0: it is not part of it.
  int turn = 0;
  std::optional<Bytes> budget = {};  // there, if it would fill all memory
  bool has_folder = true;            // there; false: its files lie beside those folders
};

template <class Of>
std::unique_ptr<Study> make_study() {
  return std::make_unique<Of>();
}

// The rows of workloads; the runner describes each, estimates its time and runs it.
template <class Workload, class Runner, class Command>
std::vector<StudyRow> rows_of(const std::vector<Workload>& workloads, Runner& runner,
                              const StudyRun& run, const Command& command) {
  std::vector<StudyRow> rows;
  for (const Workload& workload : workloads) {
    Record record = runner.describe(workload, run.blank);
    record.command = command(workload);
    rows.push_back({record, label(workload), runner.expected_s(workload, record),
                    [&runner, workload, record] { return runner.run(workload, record); }});
  }
  return rows;
}

// Adds the runner's predicted peaks to rows, for runners whose describe() does not trace a graph.
template <class Workload, class Runner>
std::vector<StudyRow> with_predicted_peaks(std::vector<StudyRow> rows,
                                           const std::vector<Workload>& workloads,
                                           const Runner& runner) {
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].described.memory.predicted_peak = runner.predicted_peak(workloads[i]);
  return rows;
}
// Whether the predicted peaks of all workloads are within the budget.
template <class Workload, class Runner>
bool all_fit(const std::vector<Workload>& workloads, const Runner& runner, Device& device) {
  for (const Workload& workload : workloads)
    if (runner.predicted_peak(workload) > device.ledger().budget()) return false;
  return true;
}

RowOptions row_options(const StudyRun& run, const SharedFlags& shared);
// The flags of these options, ready to paste after the study's name; `threads` replaces those of a
// CPU.
std::string shared_words(const StudyRun& run, const SharedFlags& shared,
                         std::optional<int> threads = {});

// Prints each note on a line after "  - ".
void print_notes(const std::vector<std::string>& notes);
// Writes the ladder to ladder.csv and returns it for the terminal; empty if there is none.
std::string ladder_text(const StudyRun& run, std::span<const Record> records);
// Prints the paths of the records, the JSON array and the CSV.
void print_paths(const StudyRun& run);

}  // namespace ridgeline

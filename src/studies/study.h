// What a study is: flags, rows on a device, and what people read of their records. The driver in
// cli/ runs any of them; studies.cc is the table of all.
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
#include "report/terminal/progress.h"
#include "report/terminal/table.h"
#include "runtime/device.h"
#include "studies/flags.h"
#include "studies/shared_flags.h"

namespace ridgeline {

struct StudyInfo;

// What the driver hands over when a study runs.
struct StudyRun {
  const StudyInfo& info;
  Device& device;
  Protocol protocol;
  Record blank;                            // the facts that all rows share: machine and build
  Json settings;                           // of the device, that tell rows apart
  std::filesystem::path results_dir;       // of all studies
  std::filesystem::path folder;            // for the files of this one
  std::string device_words;                // " --device cpu --threads 2", to be pasted
  std::function<bool()> interrupted = {};  // asked between samples
  StageHook stage = {};                    // told what a row is at
  // Takes the progress line away: for rows that print while they run.
  std::function<void()> hide_progress = {};

  std::filesystem::path file(std::string_view ending) const;  // of its own: "gemm.csv"
};

// A row that can be run.
struct StudyRow {
  Record described;                            // what identifies the row, and what was predicted
  std::string label;                           // for the progress line
  double expected_s = 1;                       // of its run, for the estimate of the time left
  std::function<std::optional<Record>()> run;  // empty result: interrupted
};

// A file that a run writes, as messages name it: "--output", "the records".
struct WrittenFile {
  std::string_view what;
  std::filesystem::path path;  // empty: none
};

// What `ridgeline study` asks of its parts.
struct StudySetup {
  const Device& device;
  std::string time_budget;  // of a row, "1s"
  int attempt = 0;          // 0: the usual size; above: smaller ones
};

class Study {
 public:
  virtual ~Study() = default;

  SharedFlags shared;

  // Its own flags, and those of `shared` that it has, in the order of --help.
  virtual void declare(Flags& flags) = 0;
  virtual std::string list() const { return {}; }  // the text of --list
  // Throws what can be told before a device is opened.
  virtual void check() {}
  // What has to be there before a device is: called between check() and opening one, not for
  // --dry-run.
  virtual void before_device() {}
  // What it does in the place of a sweep over rows: its exit code; empty: it has rows.
  virtual std::optional<int> run_instead(StudyRun&) { return std::nullopt; }

  virtual std::vector<StudyRow> rows(StudyRun&) { return {}; }
  // What --dry-run shows of them: predicted memory, and these columns with their cells.
  virtual Table planned(const StudyRun& run, const std::vector<StudyRow>& rows);
  using NamedCells = std::vector<std::pair<std::string, std::string>>;
  virtual NamedCells planned_cells(const StudyRow&) const { return {}; }
  // Prints tables and sentences: if nothing else, the summary and the notes.
  virtual void show(StudyRun& run, const std::vector<StudyRow>& rows,
                    const std::vector<Record>& records);
  // Prints what stands below the paths of files, or below planned(), when there are no records.
  virtual void show_last(StudyRun&, const std::vector<StudyRow>&, const std::vector<Record>&) {}

  // Files that its rows write.
  virtual std::vector<WrittenFile> also_written() const { return {}; }
  // The user's own implementation, whose failure is one of the run; empty: there is none.
  virtual std::string own_implementation() const { return {}; }

  // Sets its flags to what `ridgeline study` runs on this device; false: there is none so small.
  virtual bool set_up(const StudySetup&) { return false; }
  virtual bool fits(Device&) const { return true; }
};

struct StudyInfo {
  std::string_view name;  // of its command, of its folder of results, and in its records
  std::string_view summary;
  std::string_view examples;
  std::unique_ptr<Study> (*make)();
  // What people read of its records: the file, and below a title on the terminal a table and notes.
  Table (*csv)(std::span<const Record>) = nullptr;
  std::string_view title = {};
  Table (*table)(std::span<const Record>) = nullptr;
  std::vector<std::string> (*notes)(std::span<const Record>) = nullptr;
  std::string_view row_word = "row";       // what --dry-run calls its rows
  std::string_view in_reports = {};        // what its rows are called there: "Matrix products"
  std::vector<MakeSection> sections = {};  // of reports
  bool checks_values = true;               // false: its rows compute nothing that could be wrong
  // Settings that `compare` takes for axes, as sizes are: rows that differ in one are other rows.
  std::vector<std::string> setting_axes = {};
  bool takes_turns = false;   // rows are samples of time: `compare` may lead them
  bool writes_array = false;  // the records as one JSON array, beside its CSV
  // In `ridgeline study`: its turn, from 1 on; 0: it is not part of it.
  int turn = 0;
  std::optional<Bytes> budget = {};  // there, if it would fill whatever memory it is given
  bool has_folder = true;            // there; else its files lie beside the others' folders
};

template <class Of>
std::unique_ptr<Study> make_study() {
  return std::make_unique<Of>();
}

// The rows of workloads that a runner describes, expects to take so long, and runs.
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

// The same rows with the peaks that a runner predicts, for those that describe rows without tracing
// anything; and whether all of them fit.
template <class Workload, class Runner>
std::vector<StudyRow> with_predicted_peaks(std::vector<StudyRow> rows,
                                           const std::vector<Workload>& workloads,
                                           const Runner& runner) {
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].described.memory.predicted_peak = runner.predicted_peak(workloads[i]);
  return rows;
}
template <class Workload, class Runner>
bool all_fit(const std::vector<Workload>& workloads, const Runner& runner, Device& device) {
  for (const Workload& workload : workloads)
    if (runner.predicted_peak(workload) > device.ledger().budget()) return false;
  return true;
}

// The options of a row that all studies have.
template <class Options>
Options row_options(const StudyRun& run, const SharedFlags& shared) {
  Options options;
  options.protocol = run.protocol;
  options.seed = shared.seed;
  options.settings = run.settings;
  options.interrupted = run.interrupted;
  if constexpr (requires { options.verify; }) options.verify = !shared.no_verify;
  return options;
}
// The flags that they come from, to be pasted behind the study's name.
std::string shared_words(const StudyRun& run, const SharedFlags& shared);

// Prints "  - " and each of them on a line.
void print_notes(const std::vector<std::string>& notes);
// The ladder of rungs for the terminal, which is written to ladder.csv, too; empty: there is none.
std::string ladder_text(const StudyRun& run, std::span<const Record> records);
// Prints where records, arrays and tables are.
void print_paths(const StudyRun& run);

}  // namespace ridgeline

// Runs the rows of any study into a results file, with --resume, progress and Ctrl-C.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "measure/record.h"
#include "report/terminal/progress.h"
#include "report/terminal/table.h"
#include "studies/study.h"

namespace ridgeline {

// Saves the rows of a sweep in the history under a name; empty: not saved.
struct SaveBaseline {
  std::string name = {};
  std::filesystem::path results_dir = {};
};

// Receives the current activity of rows and of their device, and shows it while a sweep runs.
struct Stages {
  StageHook shown = {};
  std::function<void()> hidden = {};  // hides the progress line until the next stage
  StageHook hook() {
    return [this](const std::string& what) {
      if (shown) shown(what);
    };
  }
};

// Throws a usage error if two of them are the same file, also by a link or another spelling of the
// path: the second write would destroy the first.
void refuse_same_files(const std::vector<WrittenFile>& files);

// During its scope the fresh processes of --runs get these further arguments, so that each process
// of a command with several sweeps runs one of them.
class FreshArguments {
 public:
  explicit FreshArguments(std::vector<std::string> arguments);
  ~FreshArguments();
  FreshArguments(const FreshArguments&) = delete;
  FreshArguments& operator=(const FreshArguments&) = delete;
};

struct SweepPlan {
  std::filesystem::path records;  // the results file (JSON lines); its table is next to it (.csv)
  OutputFlags output = {};        // further files
  bool resume = false;            // keep the rows of this machine, run the rest
  int runs = 1;                   // of all rows, each in a fresh process
  Bytes budget;                   // for tensors: oom rows that fit it now run again
  SaveBaseline baseline = {};     // saved after all rows
  Stages* stages = nullptr;       // activity of rows; null: progress shows row labels only
  std::function<Table(const std::vector<Record>&)> table;  // for .csv and --output
  std::filesystem::path array = {};  // a file of all records as one JSON array; empty: none
  std::vector<WrittenFile> also_written = {};  // by its rows
};

struct SweepResult {
  std::vector<Record> records;  // kept and new, in row order; several runs merged
  bool interrupted = false;
  std::optional<Error> unwritten = {};  // why a table could not be written; exit_code throws it
};

// Each record is on disk before the next row starts; tables are written at the end, even after an
// error. Files that cannot be written are reported before the first row where possible.
SweepResult run_sweep(const std::vector<StudyRow>& rows, const SweepPlan& plan);

// 0, or 3 if a row was wrong, 4 if the device supports none, 130 if interrupted. Throws the error
// of an unwritten table, so call it after the results are shown.
int exit_code(const SweepResult& result);

}  // namespace ridgeline

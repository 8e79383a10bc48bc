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

// Under which name the rows of a sweep are kept in the history of its results; no name: not at all.
struct SaveBaseline {
  std::string name = {};
  std::filesystem::path results_dir = {};
};

// Where rows, and the device that they run on, say what they are at. Shown while a sweep runs.
struct Stages {
  StageHook shown = {};
  std::function<void()> hidden = {};  // the line that shows them goes away, until the next stage
  StageHook hook() {
    return [this](const std::string& what) {
      if (shown) shown(what);
    };
  }
};

// Throws a usage error where two of them are the same file, be it by a link or by another way to
// write its path: the second to be written would destroy the first.
void refuse_same_files(const std::vector<WrittenFile>& files);

// While this lives, the fresh processes of --runs get these further arguments: for a command that
// runs several sweeps, of which each process is to run one.
class FreshArguments {
 public:
  explicit FreshArguments(std::vector<std::string> arguments);
  ~FreshArguments();
  FreshArguments(const FreshArguments&) = delete;
  FreshArguments& operator=(const FreshArguments&) = delete;
};

struct SweepPlan {
  std::filesystem::path records;  // the results file: JSON lines; its table goes beside, as .csv
  OutputFlags output = {};        // further files
  bool resume = false;            // keep what it holds of this machine, run the rest
  int runs = 1;                   // of all rows, each in a fresh process
  Bytes budget;                   // for tensors: rows that were out of memory and fit now run again
  SaveBaseline baseline = {};     // saved once all rows are there
  Stages* stages = nullptr;       // what rows are at; none: only which of them runs
  std::function<Table(const std::vector<Record>&)> table;  // the study's own, for both files
  std::filesystem::path array = {};  // a study's own file of records as one JSON array; none: empty
  std::vector<WrittenFile> also_written = {};  // by its rows
};

struct SweepResult {
  std::vector<Record> records;  // kept and new, in the order of the rows; several runs merged
  bool interrupted = false;
  std::optional<Error> unwritten = {};  // why a table could not be written; exit_code throws it
};

// Each record is on the disk before the next row starts; tables are written at the end, whatever
// ended the sweep. What cannot be written is told before the first row, as far as one can know.
SweepResult run_sweep(const std::vector<StudyRow>& rows, const SweepPlan& plan);

// 0, or 3 when a row was wrong, 4 when the device could serve none, 130 when interrupted. To be
// asked once all is shown.
int exit_code(const SweepResult& result);

}  // namespace ridgeline

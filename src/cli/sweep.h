// Runs the rows of any study into a results file, with --resume, progress and Ctrl-C.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "measure/record.h"
#include "studies/study.h"

namespace ridgeline {

// Throws a usage error if two of them are the same file, also by a link or another spelling of the
// path: the second write would destroy the first.
void refuse_same_files(const std::vector<WrittenFile>& files);

// Further arguments of the fresh processes of --runs, so that each process of a command with
// several sweeps runs one of them.
std::vector<std::string>& fresh_arguments();

struct SweepResult {
  std::vector<Record> records;  // kept and new, in row order; several runs merged
  bool interrupted = false;
  std::optional<Error> unwritten = {};  // why a table could not be written; exit_code throws it
};

// Each record is on disk before the next row starts; tables are written at the end, even after an
// error. Files that cannot be written are reported before the first row where possible.
SweepResult run_sweep(const std::vector<StudyRow>& rows, const StudyRun& run, const Study& study);

// 0, or 3 if a row was wrong, 4 if the device supports none, 130 if interrupted. Throws the error
// of an unwritten table, so call it after the results are shown.
int exit_code(const SweepResult& result);

}  // namespace ridgeline

// Runs a study in a child process, in turns (turns.h) or uncontrolled, and reads its records.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/temporary.h"
#include "measure/record.h"
#include "measure/turns.h"

namespace ridgeline {

using Command = std::vector<std::string>;  // the program, then its arguments

class ChildStudy {
 public:
  enum class Lead { turns, none };
  struct Options {
    Lead lead = Lead::turns;
    double patience_s = 600;                 // timeout of one report: setup, or one turn
    std::function<bool()> interrupted = {};  // polled while waiting; true ends the wait
  };

  // Results go to a temporary directory. Throws an environment error if the program cannot start.
  ChildStudy(const Command& command, Options options);

  void give(const Turn& turn);
  // Returns the next report, or nullopt if the child has ended or the wait was interrupted.
  std::optional<TurnReport> next_report();

  // Waits for the child to end and returns its records, or nullopt if interrupted. Throws a usage
  // error if the child refused its arguments, and an environment error that quotes it if it ended
  // before its last row.
  std::optional<std::vector<Record>> finish();

 private:
  TemporaryDirectory directory_;
  Options options_;
  std::string name_;
  ChildProcess child_;
  bool interrupted_ = false;
};

}  // namespace ridgeline

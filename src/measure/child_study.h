// A study run by a child process: started, led by turns or left alone, and its records read back.
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
    double patience_s = 600;                 // for one answer: setting up, or one turn
    std::function<bool()> interrupted = {};  // Ctrl-C is ours to answer; the child is ended then
  };

  // Results go to a temporary directory. Throws an environment error if it cannot be started.
  ChildStudy(const Command& command, Options options);

  void give(const Turn& turn);
  // The next thing it says; empty: it has ended, or we were interrupted.
  std::optional<TurnReport> next_report();

  // Waits for its end and reads the records; empty: interrupted. Throws an environment error that
  // quotes it when it failed, a usage error when it refused its arguments.
  std::optional<std::vector<Record>> finish();

 private:
  TemporaryDirectory directory_;
  Options options_;
  std::string name_;
  ChildProcess child_;
  bool interrupted_ = false;
};

}  // namespace ridgeline

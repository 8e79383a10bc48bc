// Starts all ranks of a run on this machine, talks to rank 0 in lines, and ends them all when one
// of them ends early.
//
//   LocalRanks ranks({.ranks = 4, .words = {"/usr/bin/ridgeline", "study-rank"}});
//   ranks.write_line("...");
//   std::string answer = *ranks.read_line({.seconds = 60});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/temporary.h"

namespace ridgeline {

struct LocalRanksOptions {
  int ranks = 1;
  std::vector<std::string> words;                       // the command of every rank
  std::map<std::string, std::string> environment = {};  // beside what says which rank it is
};

class LocalRanks {
 public:
  explicit LocalRanks(LocalRanksOptions options);
  ~LocalRanks();  // ends all that still run

  void write_line(std::string_view line);  // to rank 0
  // A line of rank 0; empty: interrupted, and all ranks have been ended. Throws an environment
  // error that says which rank ended and what it was doing, after all others have been ended.
  std::optional<std::string> read_line(const ChildProcess::Patience& patience);

  std::vector<int> processes() const;  // by rank; below 0: has ended

 private:
  [[noreturn]] void report_end();

  LocalRanksOptions options_;
  TemporaryDirectory folder_;  // of the port and of activities
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

}  // namespace ridgeline

// Starts all ranks of a run on this machine, exchanges lines with rank 0, and ends all ranks when
// one of them ends early.
//
//   LocalRanks ranks({.ranks = 4, .words = {"/usr/bin/ridgeline", "study-rank"}});
//   ranks.write_line("...");
//   std::string answer = *ranks.read_line({.seconds = 60});
#pragma once

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
  std::map<std::string, std::string> environment = {};  // in addition to the launcher's variables
};

class LocalRanks {
 public:
  explicit LocalRanks(LocalRanksOptions options);
  ~LocalRanks();  // ends all running ranks

  void write_line(std::string_view line);  // to rank 0
  // Returns a line of rank 0, or nullopt if interrupted, with all ranks ended. If a rank ends
  // early, ends the others and throws an environment error that names the rank and its activity.
  std::optional<std::string> read_line(const ChildProcess::WaitLimits& limits);

  std::vector<int> processes() const;  // process ids by rank; negative: has ended

 private:
  [[noreturn]] void report_end();

  LocalRanksOptions options_;
  TemporaryDirectory folder_;  // holds the port and activity files
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

}  // namespace ridgeline

// Ranks as launchers start them, made up or real, for tests of the command line.
#pragma once

#include <signal.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "cli/run_ridgeline.h"
#include "dist/socket.h"

namespace ridgeline {

inline bool is_built(const std::string& backend) {
  return std::filesystem::exists(std::filesystem::path(RIDGELINE_BINARY).parent_path() /
                                 ("libridgeline_" + backend + ".so"));
}

// A launcher's command in front of ours; its exit code.
inline std::string run_under(const Sandbox& sandbox, Arguments words, const Arguments& arguments,
                             const std::map<std::string, std::string>& environment = {}) {
  words.push_back(RIDGELINE_BINARY);
  words = words + arguments + Arguments{"--results-dir", (sandbox / "results").string()};
  words[0] = find_program(words[0]).string();
  ChildProcess launcher(words, {.environment = environment, .merge_errors = true});
  const auto said = launcher.read_all({.seconds = 60});
  const std::string ended = launcher.end(0);
  return ended == "exit code 0" ? ended : ended + ": " + said.text;
}

// Starts one process per rank with an environment of each, as torchrun and srun do.
class MadeUpLauncher {
 public:
  using Environment = std::map<std::string, std::string>;
  MadeUpLauncher(const Sandbox& sandbox, const std::vector<Environment>& ranks,
                 const std::vector<Arguments>& arguments) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      Arguments words = Arguments{RIDGELINE_BINARY} + arguments[rank % arguments.size()] +
                        Arguments{"--results-dir", (sandbox / "results").string()};
      processes_.push_back(std::make_unique<ChildProcess>(
          words, ChildProcess::Options{.environment = ranks[rank], .merge_errors = true}));
    }
  }
  std::vector<std::string> endings() {
    std::vector<std::string> all;
    for (auto& process : processes_) {
      said_.push_back(process->read_all({.seconds = 60}).text);
      all.push_back(process->end(0));
    }
    return all;
  }
  const std::vector<std::string>& said() const { return said_; }
  void kill_rank(size_t rank) { kill(processes_[rank]->id(), SIGKILL); }

 private:
  std::vector<std::unique_ptr<ChildProcess>> processes_;
  std::vector<std::string> said_;
};

// A port that nobody has now.
inline std::string free_port() {
  return std::to_string(listen_on("127.0.0.1", 0).port);
}

inline std::vector<MadeUpLauncher::Environment> slurm_ranks(int size) {
  std::vector<MadeUpLauncher::Environment> ranks;
  const std::string port = free_port();
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back({{"SLURM_PROCID", std::to_string(rank)},
                     {"SLURM_NTASKS", std::to_string(size)},
                     {"SLURM_LOCALID", std::to_string(rank)},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_JOB_ID", "77"},
                     {"SLURM_STEP_NODELIST", "localhost"},
                     {"RIDGELINE_PORT", port}});
  return ranks;
}

// The ranks among the children of a process.
inline std::vector<int> children_of(int parent) {
  std::vector<int> children;
  std::ifstream list("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
  for (int child = 0; list >> child;) children.push_back(child);
  return children;
}

}  // namespace ridgeline

// Flags of `compare --interleave`, and the study that stands after -- there and in `noise`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/gate.h"
#include "measure/interleave.h"
#include "report/terminal/progress.h"

namespace ridgeline {

struct TurnFlags {
  int rounds = RoundOptions().rounds;
  std::string time_budget = "60s";
};
void add_turn_flags(CLI::App& command, TurnFlags& flags);

// The check and the rounds are steps of the progress. Rounds end when every row has its verdict by
// `compare` and `gates` are decided, or with Ctrl-C.
InterleaveOptions turn_options(const TurnFlags& flags, const CompareOptions& compare,
                               const std::vector<Gate>& gates, Progress& progress);

// This program's own file, to be run again.
std::string own_program();

// Throws a usage error for no study, one that does not take turns, and flags that say where its
// results go or that `taken` has: those are given here.
Command study_command(const std::string& program, const std::vector<std::string>& study,
                      const std::vector<std::string>& more = {},
                      const std::vector<std::string>& taken = {});

}  // namespace ridgeline

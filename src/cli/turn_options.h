// The flags of `compare --interleave`, and the study after -- there and in `noise`.
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

// The check of values and each round are steps of the progress. Rounds end when every row has its
// verdict by `compare` and all `gates` are decided, or on Ctrl-C.
InterleaveOptions turn_options(const TurnFlags& flags, const CompareOptions& compare,
                               const std::vector<Gate>& gates, Progress& progress);

// The path of this program.
std::string own_program();

// The command line of a study. Throws a usage error for no study, for one that does not take turns,
// for flags of outputs, and for flags in `taken`, which the caller sets itself.
Command study_command(const std::string& program, const std::vector<std::string>& study,
                      const std::vector<std::string>& more = {},
                      const std::vector<std::string>& taken = {});

}  // namespace ridgeline

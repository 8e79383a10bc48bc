// What `compare --interleave` and `noise` share: flags of turns, and the study that stands after
// --.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "measure/interleave.h"
#include "report/progress.h"

namespace ridgeline {

struct TurnFlags {
  int rounds = InterleaveOptions().rounds;
  std::string time_budget = "10s";
};
void add_turn_flags(CLI::App& command, TurnFlags& flags);

// Rounds are steps of the progress, from `first_step` on. Ctrl-C ends them.
InterleaveOptions turn_options(const TurnFlags& flags, Progress& progress, int first_step = 0);

// This program's own file, to be run again.
std::string own_program();

// Throws a usage error for no study, and for flags that say where its results go or that `taken`
// has: those are given here.
Command study_command(const std::string& program, const std::vector<std::string>& study,
                      const std::vector<std::string>& more = {},
                      const std::vector<std::string>& taken = {});

}  // namespace ridgeline

// Declared flags as options of the parser.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "studies/flags.h"

namespace ridgeline {

// The targets of the flags, and whatever else they point at, live as long as the command.
void add_flags(CLI::App& command, const Flags& flags);

// Refuses what is none of the names, and says which may have been meant.
CLI::Validator one_of(std::vector<std::string> names);

}  // namespace ridgeline

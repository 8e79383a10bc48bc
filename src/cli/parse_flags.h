// Adds declared flags to the parser as options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "studies/flags.h"

namespace ridgeline {

// Everything that the flags point at must outlive the command.
void add_flags(CLI::App& command, const Flags& flags);

// Accepts only these names, and suggests the closest one otherwise.
CLI::Validator one_of(std::vector<std::string> names);

}  // namespace ridgeline

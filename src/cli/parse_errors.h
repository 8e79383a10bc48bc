// What the parser refuses, in the words of all other errors, with the flag that may have been
// meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"

namespace ridgeline {

// Throws a usage error for a word that is none of the commands.
void expect_command(const CLI::App& program, const std::string& name);

// Of an error that the parser has thrown.
Error usage_error(const CLI::ParseError& error, const CLI::App& program);

// Throws a usage error for what the parser takes and no command does: a value that stands twice in
// a list, a flag that is neither on nor off.
void refuse_odd_values(const CLI::App& command);

}  // namespace ridgeline

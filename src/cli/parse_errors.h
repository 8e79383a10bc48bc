// Turns parser errors into our usage errors, which suggest the flag or command that was meant.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/error.h"

namespace ridgeline {

// Throws a usage error for a word that is not a command.
void expect_command(const CLI::App& program, const std::string& name);

Error usage_error(const CLI::ParseError& error, const CLI::App& program);

// Throws a usage error for input that only the parser accepts: a value given twice in a list, or a
// boolean flag with a value other than on and off.
void refuse_odd_values(const CLI::App& command);

}  // namespace ridgeline

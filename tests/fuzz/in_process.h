// Commands of the program without the program: parsed, and run in this process.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/parse_errors.h"

namespace ridgeline {

using AddCommand = std::function<Run(CLI::App&)>;

// What the words make of a command; a usage error for what its parser refuses.
inline Run parse_command(CLI::App& app, const AddCommand& add, std::vector<std::string> words) {
  const Run run = add(app);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::usage, error.what());
  }
  for (const CLI::App* command : app.get_subcommands()) refuse_odd_values(*command);
  return run;
}

inline int run_command(const AddCommand& add, const std::vector<std::string>& words) {
  CLI::App app;
  return parse_command(app, add, words)();
}

}  // namespace ridgeline

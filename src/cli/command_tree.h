// The commands and options of the parser as plain data, for shell completions and the manual page.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ridgeline {

struct OptionFacts {
  std::vector<std::string> names;  // "--seq-len", "-h"; empty: a positional
  std::string positional = {};     // "BASE"
  std::string description;
  std::string type = {};             // "TEXT", "INT"; empty: a flag without a value
  std::string default_value = {};    // as shown in --help
  std::vector<std::string> choices;  // values to complete; empty: any
  bool many = false;                 // takes a list

  bool takes_value() const { return !type.empty(); }
};

struct CommandFacts {
  std::string name;
  std::string description;
  std::string footer;  // examples
  std::vector<OptionFacts> options;
};

struct ProgramFacts {
  CommandFacts program;  // its own options
  std::vector<CommandFacts> commands;
};

// Hidden commands and options are left out.
ProgramFacts program_facts(const CLI::App& app);

}  // namespace ridgeline

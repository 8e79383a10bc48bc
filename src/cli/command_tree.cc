#include "cli/command_tree.h"

#include <CLI/CLI.hpp>

#include "studies/studies.h"

namespace ridgeline {
namespace {

// The declared flags of a command, for choices that the studies check and the parser does not know.
// Commands other than studies have device flags.
Flags declared_flags(const std::string& command) {
  if (const StudyInfo* info = find_study(command)) return DeclaredStudy(*info).flags;
  Flags flags;
  DeviceFlags device;
  add_device_flags(flags, &device);
  return flags;
}

// Extracts the choices of a type such as "TEXT:{off,quick,full}".
Words choices_in(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  if (open == type.npos || close == type.npos || close < open) return {};
  Words words;
  std::string_view rest = std::string_view(type).substr(open + 1, close - open - 1);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    words.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return words;
}

Words choices_of(const Flags& declared, const OptionFacts& option) {
  for (const std::string& name : option.names)
    if (const Flag* flag = declared.find(name); flag && !flag->rules.choices.empty())
      return flag->rules.choices;
  return choices_in(option.type);
}

OptionFacts facts_of(const Flags& declared, const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  if (facts.names.empty()) facts.positional = option.get_name(true);
  facts.description = option.get_description();
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag) facts.type = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
  facts.default_value = option.get_default_str();
  facts.many = option.get_items_expected_max() > 1;
  facts.choices = choices_of(declared, facts);
  return facts;
}

CommandFacts facts_of(const CLI::App& app) {
  CommandFacts facts{app.get_name(), app.get_description(), app.get_footer(), {}};
  const Flags declared = declared_flags(app.get_name());
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) facts.options.push_back(facts_of(declared, *option));
  return facts;
}

}  // namespace

ProgramFacts program_facts(const CLI::App& app) {
  ProgramFacts facts{facts_of(app), {}};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) facts.commands.push_back(facts_of(*command));
  return facts;
}

}  // namespace ridgeline

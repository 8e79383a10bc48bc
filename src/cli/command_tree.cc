#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <functional>

#include "studies/attention/workload.h"
#include "studies/gemm/workload.h"
#include "studies/kernel/workload.h"
#include "studies/model/workload.h"
#include "studies/peers/implementations.h"

namespace ridgeline {
namespace {

using Words = std::vector<std::string>;

Words implementations() {
  Words words;
  for (const auto& ours : attention_implementations()) words.emplace_back(ours.name);
  for (const PeerImplementation& peer : peer_implementations()) words.emplace_back(peer.name);
  return words;
}

template <auto table>
Words names_in() {
  Words words;
  for (const auto& row : table()) words.emplace_back(row.name);
  return words;
}

// Values that the parser does not check itself, because the studies do.
struct Values {
  std::string_view command;  // empty: every command
  std::string_view option;
  std::function<Words()> words;
};

const std::vector<Values>& known_values() {
  static const std::vector<Values> kKnown = {
      {"attention", "--impl", implementations},
      {"kernel", "--impl", implementations},
      {"kernel", "--mode", names_in<kernel_modes>},
      {"frontier", "--impl", names_in<attention_implementations>},
      {"gemm", "--impl", names_in<gemm_implementations>},
      {"attention", "--preset", names_in<attention_presets>},
      {"model", "--impl", names_in<modes>},
      {"memory", "--impl", names_in<modes>},
      {"", "--precision", names_in<model_precisions>},
      {"", "--scenario", names_in<scenarios>},
      {"", "--model-size", names_in<transformer_sizes>},
      {"", "--optimizer",
       [] {
         return Words{"cs336", "pytorch"};
       }},
      {"", "--dtype",
       [] {
         return Words{"fp32", "tf32", "bf16", "fp16"};
       }},
      {"", "--device",
       [] {
         return Words{"auto", "cpu", "cuda"};
       }},
      {"", "--backward",
       [] {
         return Words{"single-pass", "two-pass"};
       }},
  };
  return kKnown;
}

// "TEXT:{off,quick,full}" has its choices in it.
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

Words choices_of(const std::string& command, const OptionFacts& option) {
  for (const Values& known : known_values())
    for (const std::string& name : option.names)
      if (name == known.option && (known.command.empty() || known.command == command))
        return known.words();
  return choices_in(option.type);
}

OptionFacts facts_of(const std::string& command, const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  if (facts.names.empty()) facts.positional = option.get_name(true);
  facts.description = option.get_description();
  const bool is_flag = option.get_items_expected_max() == 0;
  if (!is_flag) facts.type = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
  facts.default_value = option.get_default_str();
  facts.many = option.get_items_expected_max() > 1;
  facts.choices = choices_of(command, facts);
  return facts;
}

CommandFacts facts_of(const CLI::App& app) {
  CommandFacts facts{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) facts.options.push_back(facts_of(app.get_name(), *option));
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

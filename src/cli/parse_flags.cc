#include "cli/parse_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/closest.h"
#include "base/error.h"
#include "base/parse_number.h"

namespace ridgeline {
namespace {

std::string at_least_one(const std::string& text) {
  const std::optional<int64_t> value = parse_number<int64_t>(text);
  if (!value) return fmt::format("'{}' is not a whole number below 2^63", text);
  return *value >= 1 ? std::string() : fmt::format("{} is not a size; sizes are at least 1", text);
}

struct AddOption {
  CLI::App& command;
  const Flag& flag;

  CLI::Option* operator()(bool* on) const { return command.add_flag(flag.names, *on, flag.help); }
  template <class Value>
  CLI::Option* operator()(Value* value) const {
    return command.add_option(flag.names, *value, flag.help);
  }
  CLI::Option* operator()(std::vector<int64_t>* sizes) const {
    return list(sizes)->check(CLI::Validator(at_least_one, "SIZE"));
  }
  CLI::Option* operator()(Words* words) const {
    return flag.rules.optional_values > 0 ? optional_list(words) : list(words);
  }

 private:
  template <class Value>
  CLI::Option* list(std::vector<Value>* values) const {
    CLI::Option* option = command.add_option(flag.names, *values, flag.help);
    if (flag.rules.repeats) option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    return flag.rules.splits ? option->delimiter(',') : option;
  }

  // An option whose values may be left out, which the parser passes as "{}".
  CLI::Option* optional_list(Words* words) const {
    const auto take = [words](const Words& given) {
      for (const std::string& word : given)
        if (!word.empty() && word != "{}") words->push_back(word);
      return true;
    };
    return command.add_option(flag.names, take, flag.help)
        ->type_name(flag.rules.optional_type)
        ->expected(0, flag.rules.optional_values)
        ->delimiter(',');
  }
};

CLI::Option* add_option(CLI::App& command, const Flag& flag) {
  const FlagRules& rules = flag.rules;
  CLI::Option* option = std::visit(AddOption{command, flag}, flag.target);
  if (rules.only_choices) option->check(one_of(rules.choices));
  if (rules.range) option->check(CLI::Range(rules.range->least, rules.range->most));
  if (rules.check.wrong) option->check(CLI::Validator(rules.check.wrong, rules.check.type));
  if (rules.shows_default) option->capture_default_str();
  return option;
}

}  // namespace

void add_flags(CLI::App& command, const Flags& flags) {
  std::vector<std::pair<const CLI::Option*, bool*>> told;
  for (const Flag& flag : flags.all()) {
    const CLI::Option* option = add_option(command, flag);
    if (flag.rules.given != nullptr) told.emplace_back(option, flag.rules.given);
  }
  for (const Flag& flag : flags.all()) {
    if (flag.rules.needs.empty() && flag.rules.excludes.empty()) continue;
    CLI::Option* option = command.get_option(flag.long_name());
    for (const std::string& other : flag.rules.needs) option->needs(command.get_option(other));
    for (const std::string& other : flag.rules.excludes)
      option->excludes(command.get_option(other));
  }
  command.parse_complete_callback([told] {
    for (const auto& [option, given] : told) *given = option->count() > 0;
  });
}

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string shown = fmt::format("{{{}}}", fmt::join(names, ","));
  return CLI::Validator(
      [names = std::move(names)](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        const Error unknown = unknown_name(text, {.what = "a value of this flag", .names = names});
        return unknown.message() + ": " + unknown.next_step();
      },
      shown);
}

}  // namespace ridgeline

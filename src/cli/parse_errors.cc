#include "cli/parse_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/closest.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestShown = 60;

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App*) { return true; });
}

// The command that was being parsed.
const CLI::App& command_of(const CLI::App& program) {
  for (const CLI::App* command : commands_of(program))
    if (command->parsed() || command->remaining_size() > 0) return *command;
  return program;
}

bool is(const CLI::ParseError& error, CLI::ExitCodes what) {
  return error.get_exit_code() == static_cast<int>(what);
}

// Removes the dashes of "--seq-len", which may be mistyped too, and a value after "=".
std::string bare(const std::string& flag) {
  const size_t begin = std::min(flag.find_first_not_of('-'), flag.size());
  return flag.substr(begin, flag.find('=') - begin);
}

std::string flag_meant_by(const std::string& word, const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) flags.push_back(name);
  const std::string near = closest(bare(word), flags);
  return near.empty() ? near : fmt::format("did you mean --{}? ", near);
}

// Rewrites messages of the parser in the style of our own.
std::string in_our_words(const CLI::ParseError& error) {
  const std::string text = error.what();
  constexpr std::string_view kNoNumber = "Could not convert: ";
  if (text.starts_with(kNoNumber)) {
    std::string given = text.substr(kNoNumber.size());  // "--flag = value"
    if (const size_t sign = given.find(" = "); sign != std::string::npos)
      given.replace(sign, 3, "=");
    return given + " is not a number";
  }
  const size_t colon = text.find(": ");
  if (is(error, CLI::ExitCodes::ArgumentMismatch) && text.ends_with(" missing"))
    return text.substr(0, colon) + " needs a value";
  std::string lower = text;
  if (!lower.empty())
    lower[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return printable(lower, 400);
}

// Refuses a value given twice in a list, which would make the same row twice. Options that take no
// space-separated list are not axes: `compare --binary A,A` is valid. Nor are those that take all
// values (FlagRules::repeats): the tokens of a prompt.
void refuse_repetitions(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    std::vector<std::string> values = option->results();
    std::sort(values.begin(), values.end());
    const auto twice = std::adjacent_find(values.begin(), values.end());
    const bool is_list = option->get_items_expected_max() > 1 && option->get_allow_extra_args();
    const bool repeats = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (option->nonpositional() && is_list && !repeats && twice != values.end())
      throw Error(ErrorKind::usage,
                  fmt::format("{} names '{}' twice", option->get_name(), printable(*twice, 60)),
                  "name each value once");
  }
}

// Refuses values of boolean flags other than on and off; CLI11 accepts any number.
void refuse_odd_flag_values(const CLI::App& command) {
  constexpr std::string_view kWords[] = {"true", "false", "1", "0", "yes", "no", "on", "off"};
  for (const CLI::Option* option : command.get_options())
    for (const std::string& value : option->results())
      if (option->get_items_expected_max() == 0 &&
          std::ranges::find(kWords, value) == std::end(kWords))
        throw Error(
            ErrorKind::usage,
            fmt::format("{}={} is neither on nor off", option->get_name(), printable(value, 60)),
            fmt::format("write {0}, or {0}=false", option->get_name()));
}

}  // namespace

void expect_command(const CLI::App& program, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(program)) {
    if (command->check_name(name)) return;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  throw Error(ErrorKind::usage,
              fmt::format("there is no command '{}'", printable(name, kLongestShown)),
              did_you_mean(name, names) + "ridgeline --help lists them");
}

Error usage_error(const CLI::ParseError& error, const CLI::App& program) {
  const CLI::App& command = command_of(program);
  const std::string name = &command == &program ? std::string("ridgeline")
                                                : fmt::format("ridgeline {}", command.get_name());
  const std::string help = fmt::format("{} --help lists its flags", name);
  const std::vector<std::string> extras = command.remaining();
  if (is(error, CLI::ExitCodes::ExtrasError) && !extras.empty()) {
    const auto is_flag = [](const std::string& word) { return word.starts_with('-'); };
    const auto flag = std::find_if(extras.begin(), extras.end(), is_flag);
    if (flag != extras.end())
      return Error(ErrorKind::usage,
                   fmt::format("'{}' is not a flag of {}", printable(*flag, kLongestShown), name),
                   flag_meant_by(*flag, command) + help);
    return Error(ErrorKind::usage,
                 fmt::format("'{}' is one word too many for {}",
                             printable(extras.front(), kLongestShown), name),
                 help);
  }
  if (&command == &program)
    return Error(ErrorKind::usage, in_our_words(error), "ridgeline --help lists the commands");
  return Error(ErrorKind::usage, in_our_words(error), help);
}

void refuse_odd_values(const CLI::App& command) {
  refuse_odd_flag_values(command);
  refuse_repetitions(command);
}

}  // namespace ridgeline

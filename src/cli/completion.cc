// ridgeline completion: generates completions for bash, zsh and fish from the parser's commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

#include "base/print.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/parse_flags.h"

namespace ridgeline {
namespace {

std::vector<std::string> all_names(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> command_names(const ProgramFacts& program) {
  std::vector<std::string> names;
  for (const CommandFacts& command : program.commands) names.push_back(command.name);
  return names;
}

// Cases for a shell's `case "$command $option" in`, one per option that takes a value.
std::string value_cases(const ProgramFacts& program, const std::string& with_choices,
                        const std::string& with_anything) {
  std::string text;
  for (const CommandFacts& command : program.commands)
    for (const OptionFacts& option : command.options) {
      if (!option.takes_value() || option.names.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names)
        patterns.push_back(fmt::format("'{} {}'", command.name, name));
      text += fmt::format("    {})\n      {}\n", fmt::join(patterns, "|"),
                          option.choices.empty() ? with_anything
                                                 : fmt::format(fmt::runtime(with_choices),
                                                               fmt::join(option.choices, " ")));
    }
  return text;
}

std::string bash(const ProgramFacts& program) {
  std::string text =
      "# Completion of ridgeline for bash: source it, or install it as "
      "bash-completion/completions/ridgeline.\n"
      "# The last piece of a list such as naive,fl is completed.\n"
      "_ridgeline_words() {\n"
      "  local before=\n"
      "  [[ $cur == *,* ]] && before=${cur%,*},\n"
      "  COMPREPLY=($(compgen -P \"$before\" -W \"$1\" -- \"${cur##*,}\"))\n"
      "}\n\n"
      "_ridgeline() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option= i\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W \"{} {}\" -- \"$cur\"))\n    return\n  fi\n",
                      fmt::join(command_names(program), " "),
                      fmt::join(all_names(program.program), " "));
  text +=
      "  # The option that the word belongs to: the last one before it.\n"
      "  for ((i = COMP_CWORD - 1; i > 1; --i)); do\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] && { option=${COMP_WORDS[i]}; break; }\n"
      "  done\n"
      "  if [[ $cur != -* ]]; then\n"
      "    case \"$command $option\" in\n";
  text += value_cases(program, "_ridgeline_words \"{}\"; return ;;",
                      "compopt -o default 2>/dev/null; return ;;");
  text += "    esac\n  fi\n  case $command in\n";
  for (const CommandFacts& command : program.commands) {
    std::vector<std::string> words = all_names(command);
    for (const OptionFacts& option : command.options)
      if (option.names.empty())
        words.insert(words.end(), option.choices.begin(), option.choices.end());
    text += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")) ;;\n", command.name,
                        fmt::join(words, " "));
  }
  return text +
         "  esac\n  ((${#COMPREPLY[@]})) || compopt -o default 2>/dev/null\n}\n"
         "complete -F _ridgeline ridgeline\n";
}

// Escapes text for single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c == '\n' ? ' ' : c;
  }
  return out;
}

// Also escapes brackets and colons, which are special in zsh's option descriptions.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : quoted(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const OptionFacts& option) {
  const std::string action =
      option.choices.empty() ? std::string("_files")
      : option.many          ? fmt::format("_values -s , value {}", fmt::join(option.choices, " "))
                             : fmt::format("({})", fmt::join(option.choices, " "));
  if (option.names.empty())
    return fmt::format("      '*:{}:{}'", zsh_text(option.description), action);
  std::string text;
  for (const std::string& name : option.names)
    text += fmt::format("{}      '*{}[{}]{}'", text.empty() ? "" : " \\\n", name,
                        zsh_text(option.description),
                        option.takes_value() ? ":value:" + action : std::string());
  return text;
}

std::string zsh(const ProgramFacts& program) {
  std::string text =
      "#compdef ridgeline\n# Completion of ridgeline for zsh: put it on $fpath as "
      "_ridgeline.\n_ridgeline() {\n  local -a commands=(\n";
  for (const CommandFacts& command : program.commands)
    text += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.description));
  text +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const CommandFacts& command : program.commands) {
    text += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionFacts& option : command.options) text += " \\\n" + zsh_option(option);
    text += "\n      ;;\n";
  }
  return text +
         "  esac\n}\n"
         "if [ \"$funcstack[1]\" = _ridgeline ]; then\n  _ridgeline \"$@\"\nelse\n"
         "  compdef _ridgeline ridgeline\nfi\n";
}

std::string fish_option(const std::string& condition, const OptionFacts& option) {
  std::string text = fmt::format("complete -c ridgeline -n '{}'", condition);
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value() && !option.names.empty()) text += " -r";
  if (!option.choices.empty()) {
    const std::string words = fmt::format("{}", fmt::join(option.choices, " "));
    // Completes the last item of a list such as naive,fl.
    text += option.many && !option.names.empty()
                ? fmt::format(" -f -a '(__fish_append , {})'", words)
                : fmt::format(" -f -a '{}'", words);
  }
  return text + fmt::format(" -d '{}'\n", quoted(option.description));
}

std::string fish(const ProgramFacts& program) {
  std::string text =
      "# Completion of ridgeline for fish: install it as "
      "fish/vendor_completions.d/ridgeline.fish.\n"
      "complete -c ridgeline -n __fish_use_subcommand -f\n";
  for (const CommandFacts& command : program.commands)
    text += fmt::format("complete -c ridgeline -n __fish_use_subcommand -a {} -d '{}'\n",
                        command.name, quoted(command.description));
  for (const OptionFacts& option : program.program.options)
    text += fish_option("__fish_use_subcommand", option);
  for (const CommandFacts& command : program.commands)
    for (const OptionFacts& option : command.options)
      text += fish_option("__fish_seen_subcommand_from " + command.name, option);
  return text;
}

}  // namespace

Run add_completion_command(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "completions for a shell, on stdout");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(ridgeline completion bash)                 in this shell\n"
      "  ridgeline completion fish > ~/.config/fish/completions/ridgeline.fish");
  return [shell, &app] {
    const ProgramFacts facts = program_facts(app);
    print("{}", *shell == "bash" ? bash(facts) : *shell == "zsh" ? zsh(facts) : fish(facts));
    return 0;
  };
}

}  // namespace ridgeline

// ridgeline man: generates the manual page in roff from the parser's commands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/command_tree.h"
#include "cli/commands.h"

namespace ridgeline {
namespace {

// Escapes backslashes, dashes, and dots and quotes at the start of a line, which roff interprets.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    line_start = c == '\n';
  }
  return out;
}

std::string option_text(const OptionFacts& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + roff(name) + "\\fR");
  if (names.empty()) names.push_back("\\fI" + roff(option.positional) + "\\fR");
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (option.takes_value() && !option.names.empty())
    text += fmt::format(" \\fI{}\\fR{}", roff(option.type), option.many ? " ..." : "");
  text += "\n" + roff(option.description);
  if (!option.default_value.empty())
    text += fmt::format(" (default: {})", roff(option.default_value));
  text += "\n";
  // Lists the choices unless the type or the description already shows them.
  const auto is_shown = [&](const std::string& choice) {
    return (option.type + option.description).find(choice) != std::string::npos;
  };
  if (!std::all_of(option.choices.begin(), option.choices.end(), is_shown))
    text +=
        fmt::format(".br\nValues: {}.\n", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  return text;
}

std::string examples(const std::string& footer) {
  return footer.empty() ? "" : fmt::format(".PP\n.nf\n{}\n.fi\n", roff(footer));
}

std::string manual(const ProgramFacts& facts) {
  std::string text = fmt::format(
      ".TH RIDGELINE 1 \"\" \"ridgeline {}\" \"User Commands\"\n"
      ".SH NAME\nridgeline \\- measures attention and transformers\n"
      ".SH SYNOPSIS\n\\fBridgeline\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR ...]\n"
      ".SH DESCRIPTION\n{}\n",
      roff(build_facts().version), roff(facts.program.description));
  text += ".SH OPTIONS\n";
  for (const OptionFacts& option : facts.program.options) text += option_text(option);
  text += ".SH COMMANDS\n";
  for (const CommandFacts& command : facts.commands) {
    text +=
        fmt::format(".SS \"ridgeline {}\"\n{}.\n", roff(command.name), roff(command.description));
    for (const OptionFacts& option : command.options) text += option_text(option);
    text += examples(command.footer);
  }
  text += ".SH EXAMPLES AND EXIT CODES\n" + examples(facts.program.footer);
  text += ".SH ENVIRONMENT\n";
  struct Variable {
    const char* name;
    const char* meaning;
  };
  for (const Variable& variable : {
           Variable{"COLUMNS", "the width of tables (default: the terminal's; 120 in a pipe)"},
           Variable{"MASTER_ADDR",
                    "the host of rank 0, where the launcher of ranks does not say it"},
           Variable{"NO_COLOR", "set to anything: no colour on a terminal"},
           Variable{"RIDGELINE_CACHE_DIR", "where compiled kernels are kept; off: nowhere"},
           Variable{"RIDGELINE_CUDA_LIBRARIES",
                    "a folder to look for NVIDIA's libraries; none: no GPU"},
           Variable{"RIDGELINE_ISA",
                    "vector code of the CPU: portable, avx2, avx512, avx512_bf16 or amx"},
           Variable{"RIDGELINE_PEERS", "the folder of the scripts that run other libraries"},
           Variable{"RIDGELINE_PLUGINS", "a folder to look for the plugins of MPI and Gloo"},
           Variable{"RIDGELINE_PORT", "the port at which rank 0 listens, the same on all ranks"},
           Variable{"RIDGELINE_PYTHON", "the interpreter that runs them (default: python3)"},
       })
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", variable.name, roff(variable.meaning));
  return text;
}

}  // namespace

Run add_man_command(CLI::App& app) {
  app.add_subcommand("man", "the manual page, on stdout: ridgeline man | man -l -")
      ->footer("Example: ridgeline man | man -l -");
  return [&app] {
    print("{}", manual(program_facts(app)));
    return 0;
  };
}

}  // namespace ridgeline

// ridgeline compare: verdicts on two results files, or on two programs measured in turns.
#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "cli/base_results.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/parse_flags.h"
#include "cli/turn_options.h"
#include "measure/compare.h"
#include "measure/gate.h"
#include "measure/history.h"
#include "measure/interleave.h"
#include "measure/record_json.h"
#include "report/terminal/compare.h"
#include "report/terminal/progress.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr int kGateFailedExit = 1;
constexpr int kGateUndecidedExit = 5;  // no regression was found, but a row could not be judged

struct CompareFlags {
  std::vector<std::string> inputs;  // BASE NEW, or a study's command with --interleave
  std::string baseline;
  std::vector<std::string> gates;
  std::vector<std::string> implementations;
  std::vector<std::string> programs;
  std::string base_args, new_args;
  std::string tolerance = "1%";
  std::string unclear = "fail";
  bool interleave = false;
  bool force = false;
  TurnFlags turns;
  std::string results_dir = "results";
};

double parse_tolerance(const std::string& text) {
  try {
    return parse_gate("slower:" + text).limit;  // reuses the gates' parser for percentages
  } catch (const Error&) {
    throw Error(ErrorKind::usage, fmt::format("--tolerance '{}' is not a percentage", text),
                "expected something like 1%");
  }
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

void check_two(const std::vector<std::string>& given, const char* flag) {
  if (!given.empty() && given.size() != 2)
    throw Error(ErrorKind::usage,
                fmt::format("{} names {}: expected two, BASE,NEW", flag, given.size()));
}

// Returns nullopt if interrupted.
std::optional<Comparison> compare_in_turns(const CompareFlags& flags, const CompareOptions& options,
                                           const std::vector<Gate>& gates,
                                           const fs::path& directory) {
  if (!flags.baseline.empty())
    throw Error(ErrorKind::usage, "--baseline cannot be measured in turns",
                "leave out --interleave, or compare two programs with --binary OLD,NEW");
  const auto side = [&](size_t i, const std::string& arguments) {
    const std::string program = flags.programs.empty() ? own_program() : flags.programs[i];
    if (flags.implementations.empty())
      return study_command(program, flags.inputs, words(arguments));
    Command command = study_command(program, flags.inputs, words(arguments), {"--impl"});
    command.insert(command.end(), {"--impl", flags.implementations[i]});
    return command;
  };
  watch_for_interrupts();
  Progress progress(std::vector<double>(static_cast<size_t>(flags.turns.rounds) + 1, 1.0),
                    terminal_progress());
  const Interleaved measured = interleave(side(0, flags.base_args), side(1, flags.new_args),
                                          turn_options(flags.turns, options, gates, progress));
  progress.clear();
  if (measured.interrupted) return std::nullopt;
  write_file_atomically(directory / "base.jsonl", to_lines(measured.base));
  write_file_atomically(directory / "new.jsonl", to_lines(measured.next));
  return compare_interleaved(measured.rows, options);
}

Comparison compare_files(const CompareFlags& flags, const CompareOptions& options,
                         const History* history) {
  const bool one_file = !flags.baseline.empty() || !flags.implementations.empty();
  if (flags.inputs.empty() || flags.inputs.size() > 2 || (flags.inputs.size() == 1 && !one_file) ||
      (flags.inputs.size() == 2 && !flags.baseline.empty()))
    throw Error(ErrorKind::usage, fmt::format("{} results files given", flags.inputs.size()),
                "expected BASE NEW, or --baseline NAME NEW, or --impl A,B FILE");
  const std::vector<Record> base = flags.baseline.empty()
                                       ? read_side(flags.inputs.front())
                                       : read_baseline(flags.baseline, history, flags.results_dir);
  return compare_records(base, read_side(flags.inputs.back()), options);
}

int run_compare(const CompareFlags& flags) {
  check_two(flags.implementations, "--impl");
  check_two(flags.programs, "--binary");
  if (!flags.interleave &&
      !(flags.programs.empty() && flags.base_args.empty() && flags.new_args.empty()))
    throw Error(ErrorKind::usage, "--binary, --base-args and --new-args run programs",
                "add --interleave, and a study after --");
  std::vector<Gate> gates;
  for (const std::string& text : flags.gates) gates.push_back(parse_gate(text));
  const std::unique_ptr<History> history = history_if_any(flags.results_dir);
  CompareOptions options{.axes = compare_axes(),
                         .noise = noise_of(history.get()),
                         .tolerance = parse_tolerance(flags.tolerance),
                         .force = flags.force};
  if (!flags.implementations.empty())
    options.implementations = {flags.implementations[0], flags.implementations[1]};
  const fs::path directory = fs::path(flags.results_dir) / "compare";
  const std::optional<Comparison> comparison =
      flags.interleave ? compare_in_turns(flags, options, gates, directory)
                       : std::optional(compare_files(flags, options, history.get()));
  if (!comparison) {
    say("interrupted; nothing was compared");
    return kInterruptedExit;
  }
  print("{}\n", to_terminal(comparison_table(*comparison), directory / "comparison.csv"));
  for (const std::string& sentence : comparison_sentences(*comparison)) print("  - {}\n", sentence);
  write_table(directory / "comparison.csv", comparison_csv(*comparison));
  write_file_atomically(directory / "comparison.md", comparison_markdown(*comparison));
  print("\nCSV:      {0}/comparison.csv\nMarkdown: {0}/comparison.md\n", directory.string());
  size_t failed = 0, undecided = 0;
  for (const Gate& gate : gates) {
    const GateResult result = judge(gate, *comparison);
    for (const std::string& failure : result.failures) say("gate failed: {}", failure);
    for (const std::string& row : result.undecided) say("gate could not judge: {}", row);
    failed += result.failures.size();
    undecided += result.undecided.size();
  }
  if (failed > 0) return kGateFailedExit;
  return undecided > 0 && flags.unclear == "fail" ? kGateUndecidedExit : 0;
}

}  // namespace

Run add_compare_command(CLI::App& app) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command = app.add_subcommand(
      "compare", "is it faster, by how much, and is that noise: two results, or two programs");
  command->add_option("inputs", flags->inputs,
                      "BASE NEW: results files; with --interleave, after --: a study to run");
  command->add_option("--baseline", flags->baseline,
                      "a saved baseline in the place of BASE (see --save-baseline of the studies)");
  command
      ->add_option("--impl", flags->implementations,
                   "A,B: compare these two implementations with each other")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_flag("--interleave", flags->interleave,
                    "measure both sides now, in turns A B B A; the study stands after --");
  command->add_option("--binary", flags->programs, "OLD,NEW: two builds to measure in turns")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--base-args", flags->base_args,
                      "further flags of the study, base side only");
  command->add_option("--new-args", flags->new_args, "further flags of the study, new side only");
  command
      ->add_option("--unclear", flags->unclear,
                   "fail: exit with 5 when a gate found no regression but could not judge a row; "
                   "pass: exit with 0")
      ->check(one_of({"fail", "pass"}))
      ->capture_default_str();
  command->add_option("--gate", flags->gates, "exit with 1 when: " + gate_help())
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--tolerance", flags->tolerance,
                   "differences up to this are SAME even where the noise is less")
      ->capture_default_str();
  command->add_flag("--force", flags->force, "compare across machines and settings");
  add_turn_flags(*command, flags->turns);
  command
      ->add_option("--results-dir", flags->results_dir, "where tables go, and where the history is")
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  ridgeline compare before.jsonl after.jsonl --gate slower:3%\n"
      "  ridgeline compare --baseline main results/attention/attention.jsonl\n"
      "  ridgeline compare --impl naive,flash results/attention/attention.jsonl\n"
      "  ridgeline compare --interleave --impl naive,flash -- attention --seq-len 1024 --d-model "
      "64\n"
      "  ridgeline compare --interleave --binary old/ridgeline,new/ridgeline --gate slower:3% -- "
      "attention --impl flash --seq-len 1024 --d-model 64\n"
      "  ridgeline compare --interleave --base-args '--threads 1' --new-args '--threads 2' -- "
      "attention --impl flash --seq-len 1024 --d-model 64");
  return [flags] { return run_compare(*flags); };
}

}  // namespace ridgeline

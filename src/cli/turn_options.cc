#include "cli/turn_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "cli/interrupt.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

// Studies that can be measured in turns. Rows of the others are not samples of time, or no oracle
// checks them.
Words studies_in_turns() {
  Words names;
  for (const StudyInfo& info : studies())
    if (info.takes_turns) names.emplace_back(info.name);
  std::ranges::sort(names);
  return names;
}

}  // namespace

void add_turn_flags(CLI::App& command, TurnFlags& flags) {
  command
      .add_option(
          "--rounds", flags.rounds,
          fmt::format("the most rounds; in each both sides are started anew, and {} are the fewest "
                      "that give a verdict",
                      fewest_rounds(1)))
      ->check(CLI::Range(1, kMaxPairs))
      ->capture_default_str();
  command
      .add_option(
          "--time-budget", flags.time_budget,
          "per row; rounds end earlier when every row has its verdict and every gate is decided")
      ->capture_default_str();
}

InterleaveOptions turn_options(const TurnFlags& flags, const CompareOptions& compare,
                               const std::vector<Gate>& gates, Progress& progress) {
  const auto decided = [gates, tolerance = compare.tolerance](const RowComparison& row) {
    return std::all_of(gates.begin(), gates.end(),
                       [&](const Gate& gate) { return is_decided(gate, row, tolerance); });
  };
  return {
      .rounds = {.rounds = flags.rounds,
                 .time_budget_s = parse_time_budget(flags.time_budget),
                 .settled = [compare, decided](
                                const auto& rows) { return settled_rows(rows, compare, decided); }},
      .interrupted = interrupted,
      .progress = [&progress](int round, size_t row) {
        progress.begin(
            static_cast<size_t>(round),
            fmt::format("{}, row {}",
                        round == 0 ? "checking values" : fmt::format("round {}", round), row + 1));
      }};
}

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

Command study_command(const std::string& program, const std::vector<std::string>& study,
                      const std::vector<std::string>& more, const std::vector<std::string>& taken) {
  if (study.empty())
    throw Error(ErrorKind::usage, "no study to measure",
                "end the command with -- and a study, such as: -- attention --impl flash "
                "--seq-len 1024 --d-model 64");
  const Words names = studies_in_turns();
  if (std::ranges::find(names, study.front()) == names.end())
    throw Error(ErrorKind::usage,
                fmt::format("'{}' is not a study that takes turns: expected {}",
                            printable(study.front(), 60), fmt::join(names, ", ")),
                "the study stands first after --");
  std::vector<std::string> refused = {"--results-dir", "-o",        "--output", "--json",
                                      "--resume",      "--dry-run", "--list",   "--save-baseline"};
  refused.insert(refused.end(), taken.begin(), taken.end());
  Command command = {program};
  for (const auto* words : {&study, &more})
    for (const std::string& word : *words) {
      const std::string flag = word.substr(0, word.find('='));
      if (std::find(refused.begin(), refused.end(), flag) != refused.end())
        throw Error(
            ErrorKind::usage, fmt::format("the study cannot have {} here", printable(word, 60)),
            std::find(taken.begin(), taken.end(), flag) != taken.end() ? "it is given before the --"
                                                                       : "leave it out");
      command.push_back(word);
    }
  return command;
}

}  // namespace ridgeline

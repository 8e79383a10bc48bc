// ridgeline noise: how far a study lies from itself on this machine, stored for compare.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/turn_options.h"
#include "measure/history.h"
#include "measure/noise.h"
#include "report/table.h"

namespace ridgeline {
namespace {

struct NoiseFlags {
  std::vector<std::string> study;
  int comparisons = 10;
  TurnFlags turns;
  std::string results_dir = "results";
};

// A table per row: they are sorted by it.
std::vector<Table> noise_tables(const std::vector<MeasuredNoise>& noise) {
  std::vector<Table> tables;
  for (const MeasuredNoise& entry : noise) {
    if (tables.empty() || tables.back().title != entry.row)
      tables.push_back(
          {.title = entry.row, .columns = {"phase", "measured", "comparisons", "noise floor"}});
    tables.back().rows.push_back(
        {entry.phase, std::string(pairing_name(entry.pairing)), std::to_string(entry.comparisons),
         entry.comparisons > 0 ? fmt::format("{:.2f} %", 100 * entry.fraction) : "unknown"});
  }
  return tables;
}

int run_command(const NoiseFlags& flags) {
  const Command command = study_command(own_program(), flags.study);
  watch_for_interrupts();
  const int steps_each = flags.turns.rounds + 2;  // the check, the rounds, one run alone
  Progress progress(std::vector<double>(static_cast<size_t>(flags.comparisons * steps_each), 1.0),
                    terminal_progress());
  std::vector<Interleaved> in_turns;
  std::vector<std::vector<Record>> alone;
  for (int i = 0; i < flags.comparisons; ++i) {
    const int first_step = i * steps_each;
    in_turns.push_back(
        interleave(command, command, turn_options(flags.turns, {}, progress, first_step)));
    progress.begin(static_cast<size_t>(first_step + flags.turns.rounds + 1), "one run by itself");
    auto records = run_alone(command, interrupted);
    if (in_turns.back().interrupted || !records) {
      progress.clear();
      fmt::print(stderr, "ridgeline: interrupted; nothing was stored\n");
      return kInterruptedExit;
    }
    alone.push_back(std::move(*records));
  }
  progress.clear();
  const std::vector<MeasuredNoise> noise = measured_noise(in_turns, alone);
  if (noise.empty())
    throw Error(ErrorKind::usage, "no row of the study was measured", "give sizes that fit");
  const auto known =
      std::count_if(noise.begin(), noise.end(), [](const auto& e) { return e.comparisons > 0; });
  if (known == 0)
    throw Error(ErrorKind::usage,
                "rounds and samples were too few for an interval, so nothing was stored",
                fmt::format("give --rounds {} or more, and the study more samples", kFirstLook));
  History history(History::file_in(flags.results_dir), Database::Open::create);
  for (const MeasuredNoise& entry : noise)
    if (entry.comparisons > 0) history.save_noise(entry);
  fmt::print("The most that self-comparisons differed beyond their own intervals:\n\n");
  for (const Table& table : noise_tables(noise)) fmt::print("{}\n", to_text(table));
  if (known < std::ssize(noise))
    fmt::print("Not stored, for too few rounds or samples: those that are unknown.\n");
  fmt::print("Stored in {}\n", History::file_in(flags.results_dir).string());
  return 0;
}

}  // namespace

Run add_noise_command(CLI::App& app) {
  auto flags = std::make_shared<NoiseFlags>();
  CLI::App* command = app.add_subcommand(
      "noise", "how far a study lies from itself on this machine; stored for compare");
  command->add_option("study", flags->study, "after --: the study to compare with itself");
  command->add_option("--comparisons", flags->comparisons, "self-comparisons, and runs alone")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  add_turn_flags(*command, flags->turns);
  command->add_option("--results-dir", flags->results_dir, "where the history is")
      ->capture_default_str();
  command->footer("Example: ridgeline noise -- attention --impl flash --seq-len 512 --d-model 64");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

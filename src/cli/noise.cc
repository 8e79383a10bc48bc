// ridgeline noise: measures the noise floor of a study on this machine and stores it for compare.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/print.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/turn_options.h"
#include "measure/history.h"
#include "measure/interleave.h"
#include "measure/noise.h"
#include "report/terminal/progress.h"
#include "report/terminal/table.h"

namespace ridgeline {
namespace {

struct NoiseFlags {
  std::vector<std::string> study;
  int runs = 20;
  std::string results_dir = "results";
};

// One table per row of the study; `noise` is sorted by row.
std::vector<Table> noise_tables(const std::vector<MeasuredNoise>& noise) {
  std::vector<Table> tables;
  for (const MeasuredNoise& entry : noise) {
    if (tables.empty() || tables.back().title != entry.row)
      tables.push_back({.title = entry.row, .columns = {"phase", "runs", "noise floor"}});
    tables.back().rows.push_back(
        {entry.phase, std::to_string(entry.runs), fmt::format("{:.2f} %", 100 * entry.fraction)});
  }
  return tables;
}

int run_command(const NoiseFlags& flags) {
  const Command command = study_command(own_program(), flags.study);
  watch_for_interrupts();
  Progress progress(std::vector<double>(static_cast<size_t>(flags.runs), 1.0), terminal_progress());
  std::vector<std::vector<Record>> runs;
  for (int i = 0; i < flags.runs; ++i) {
    progress.begin(static_cast<size_t>(i), fmt::format("run {}", i + 1));
    auto records = run_alone(command, interrupted);
    if (!records) {
      progress.clear();
      say("interrupted; nothing was stored");
      return kInterruptedExit;
    }
    runs.push_back(std::move(*records));
  }
  progress.clear();
  const std::vector<MeasuredNoise> noise = measured_noise(runs);
  if (noise.empty())
    throw Error(ErrorKind::usage,
                fmt::format("no row of the study was measured in {} runs", kFewestFloorRuns),
                "give sizes that fit");
  History history(History::file_in(flags.results_dir), Database::Open::create);
  for (const MeasuredNoise& entry : noise) history.save_noise(entry);
  print("{}",
        "Two single runs of a row lie further apart than its floor in 1 % of cases, with 95 % "
        "confidence:\n\n");
  for (const Table& table : noise_tables(noise)) print("{}\n", to_terminal(table));
  print("Stored in {}\n", History::file_in(flags.results_dir).string());
  return 0;
}

}  // namespace

Run add_noise_command(CLI::App& app) {
  auto flags = std::make_shared<NoiseFlags>();
  CLI::App* command = app.add_subcommand(
      "noise", "how far a study lies from itself on this machine; stored for compare");
  command->add_option("study", flags->study, "after --: the study to compare with itself");
  command
      ->add_option("--runs,--comparisons", flags->runs,
                   fmt::format("fresh runs of the study, at least {}", kFewestFloorRuns))
      ->check(CLI::Range(kFewestFloorRuns, 1000))
      ->capture_default_str();
  command->add_option("--results-dir", flags->results_dir, "where the history is")
      ->capture_default_str();
  command->footer("Example: ridgeline noise -- attention --impl flash --seq-len 512 --d-model 64");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

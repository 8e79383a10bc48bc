// ridgeline study: all studies at a size that fits this machine, in about two minutes.
#include <fmt/format.h>

#include <memory>

#include "cli/attention_sweep.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/write_report.h"

namespace ridgeline {
namespace {

struct WholeStudyFlags {
  DeviceFlags device;
  std::string results_dir = "results";
  std::string time_budget = "2s";
  std::string save_baseline;
  bool resume = false;
};

int run_command(const WholeStudyFlags& flags) {
  const std::unique_ptr<Device> device = open_device(flags.device);
  // Narrow heads reach the length at which naive attention no longer fits most machines.
  const std::vector<AttentionMatrix> matrices = {
      {.head_dims = {16}, .seq_lens = {256, 1024, 4096, 16384}},
      {.head_dims = {64}, .seq_lens = {256, 1024, 4096}},
  };
  std::vector<AttentionWorkload> workloads;
  for (const AttentionMatrix& matrix : matrices)
    for (AttentionWorkload& workload : expand_matrix(matrix))
      workloads.push_back(std::move(workload));
  const Protocol protocol{.warmups = 3, .time_budget_s = parse_seconds(flags.time_budget)};
  fmt::print("Attention study on {}\nbudget for tensors {}\n", device->description(),
             to_string(device->ledger().budget()));
  watch_for_interrupts();
  const std::filesystem::path directory = std::filesystem::path(flags.results_dir) / "study";
  const SweepResult result =
      run_attention_sweep(workloads, *device,
                          {.study = {.protocol = protocol,
                                     .try_beyond_budget = false,
                                     .settings = settings_of(flags.device, *device),
                                     .interrupted = interrupted},
                           .directory = directory,
                           .baseline = {flags.save_baseline, flags.results_dir},
                           .resume = flags.resume,
                           .command = "ridgeline attention" + to_command(flags.device, *device) +
                                      to_command(protocol)});
  if (!result.records.empty())
    for (const std::filesystem::path& path : write_reports(
             {.results = {directory / "attention.jsonl"}, .outputs = {directory / "report.html"}}))
      fmt::print("Report:  {}   (open it in a browser)\n", path.string());
  return exit_code(result);
}

}  // namespace

Run add_study_command(CLI::App& app) {
  auto flags = std::make_shared<WholeStudyFlags>();
  CLI::App* command = app.add_subcommand("study", "all studies, at a size that fits this machine");
  add_device_flags(*command, flags->device);
  command->add_option("--time-budget", flags->time_budget, "seconds per row")
      ->capture_default_str();
  command->add_option("--results-dir", flags->results_dir, "where records and tables go")
      ->capture_default_str();
  add_save_baseline(*command, flags->save_baseline);
  command->add_flag("--resume", flags->resume,
                    "run only the rows that the results file does not hold");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

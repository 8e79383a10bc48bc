// ridgeline attention: the attention study over a grid of sizes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/print.h"
#include "cli/attention_sweep.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/sweep_group.h"
#include "report/terminal/table.h"
#include "studies/peers/peers.h"

namespace ridgeline {
namespace {

struct AttentionFlags {
  std::string preset = "cs336";
  AttentionMatrix given;
  std::vector<std::string> dtypes;
  BackwardFlags backward;
  DeviceFlags device;
  ProtocolFlags protocol;
  StudyFlags study;
  bool causal = false;
  bool explain = false;
};

// The preset, with whatever was given on the command line in its place.
AttentionMatrix matrix_of(const AttentionFlags& flags, const Device& device) {
  AttentionMatrix matrix = attention_preset(flags.preset);
  const auto prefer = [](auto& target, const auto& given) {
    if (!given.empty()) target = given;
  };
  prefer(matrix.batch_sizes, flags.given.batch_sizes);
  prefer(matrix.head_dims, flags.given.head_dims);
  prefer(matrix.seq_lens, flags.given.seq_lens);
  prefer(matrix.heads, flags.given.heads);
  prefer(matrix.dtypes, flags.dtypes);
  prefer(matrix.implementations, flags.given.implementations);
  matrix.causal = matrix.causal || flags.causal;
  matrix.backward = backward_algorithms(flags.backward.algorithms, device.facts());
  return matrix;
}

int list_implementations() {
  print("implementations:\n");
  for (const AttentionImplementation& implementation : attention_implementations())
    print("  {:<12} {}\n", implementation.name, implementation.summary);
  print("{}", peer_list());
  print("presets:\n");
  for (const AttentionPreset& preset : attention_presets())
    print("  {:<12} {}\n", preset.name, preset.summary);
  print("dtypes:\n  fp32, bf16, fp16; tf32 on a GPU\n");
  return 0;
}

void dry_run(const std::vector<AttentionWorkload>& workloads, Device& device,
             const AttentionStudyOptions& options) {
  Table table{
      .title = fmt::format("{} rows would run on {}", workloads.size(), device.description()),
      .columns = {"row", "predicted peak", "fits", "GFLOP forward + backward"},
      .rows = {}};
  for (const AttentionWorkload& workload : workloads) {
    const bool is_peer = find_peer(workload.implementation) != nullptr;
    const Record record = is_peer ? describe_peer_attention(workload, device, options, {})
                                  : describe_attention(workload, device, options, {});
    const std::optional<Bytes> peak = record.memory.predicted_peak;
    const double flops =
        static_cast<double>(record.cost->forward.flops + record.cost->backward.flops);
    table.rows.push_back({label(workload), peak ? to_string(*peak) : "-",
                          record.status != Status::ok ? std::string(status_csv_word(record.status))
                          : !peak                     ? "-"
                          : *peak <= device.ledger().budget() ? "yes"
                                                              : "no",
                          fmt::format("{:.3f}", flops / 1e9)});
  }
  print("{}", to_terminal(table));
}

int run_command(const AttentionFlags& flags) {
  if (flags.study.list) return list_implementations();
  Stages stages;
  const std::unique_ptr<Device> device = open_device(flags.device, stages.hook());
  const std::vector<AttentionWorkload> workloads = expand_matrix(matrix_of(flags, *device));
  if (flags.explain && std::none_of(workloads.begin(), workloads.end(), is_planned))
    throw Error(ErrorKind::usage, "--explain is about compiled rows, and none of these is",
                "add compiled to --impl");
  const AttentionStudyOptions study{.protocol = make_protocol(flags.protocol),
                                    .seed = flags.study.seed,
                                    .verify = !flags.study.no_verify,
                                    .settings = settings_of(flags.device, *device),
                                    .interrupted = sweep_interrupted};
  const auto explain = [&] {
    for (const AttentionWorkload& workload : workloads)
      if (flags.explain && is_planned(workload)) print("\n{}", explain_plan(workload, *device));
  };
  if (flags.study.dry_run) {
    dry_run(workloads, *device, study);
    explain();
    return 0;
  }
  watch_for_interrupts();
  const SweepResult result = run_attention_sweep(
      workloads, *device,
      {.study = study,
       .directory = std::filesystem::path(flags.study.results_dir) / "attention",
       .output = flags.study.output,
       .baseline = {flags.study.save_baseline, flags.study.results_dir},
       .resume = flags.study.resume,
       .runs = flags.study.runs,
       .command = "ridgeline attention" + to_command(flags.device, *device) +
                  to_command(study.protocol) +
                  fmt::format(" --seed {}{}", flags.study.seed,
                              flags.study.no_verify ? " --no-verify" : ""),
       .stages = &stages});
  explain();
  return exit_code(result);
}

}  // namespace

Run add_attention_command(CLI::App& app) {
  auto flags = std::make_shared<AttentionFlags>();
  flags->given = {.batch_sizes = {},
                  .head_dims = {},
                  .seq_lens = {},
                  .heads = {},
                  .dtypes = {},
                  .implementations = {}};
  CLI::App* command =
      app.add_subcommand("attention", "time and memory of attention over a grid of sizes");
  add_implementations(*command, flags->given.implementations,
                      "implementations (default: naive,compiled,flash)");
  command->add_option("--preset", flags->preset, "cs336, flash or leaderboard")
      ->capture_default_str();
  add_sizes(*command, "--batch-size", flags->given.batch_sizes, "independent sequences");
  add_head_dims(*command, flags->given.head_dims);
  add_sizes(*command, "--seq-len", flags->given.seq_lens, "sequence lengths");
  add_sizes(*command, "--heads", flags->given.heads, "heads per sequence");
  add_causal(*command, flags->causal);
  add_dtypes(*command, flags->dtypes);
  add_backward(*command, flags->backward);
  command->add_flag("--explain", flags->explain,
                    "print the plans of compiled rows: what was recognised, kernels and why, "
                    "memory, refusals; with --dry-run, without running them");
  add_protocol_flags(*command, flags->protocol);
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "implementations, presets and dtypes");
  command->footer(
      "Example: ridgeline attention --impl naive,flash --d-model 64 --seq-len 256,1024 "
      "--num-iterations 20");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

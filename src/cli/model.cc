// ridgeline model: whole transformers, vanilla against compiled, from forward to a training step.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "report/terminal/ladder.h"
#include "studies/model/row.h"
#include "studies/model/tables.h"

namespace ridgeline {
namespace {

struct ModelFlags {
  ModelAxes axes;
  bool explain = false;
  std::string weights, save_weights;  // files; empty: none
  DeviceFlags device;
  ProtocolFlags protocol{.warmups = 5, .iterations = 10};
  StudyFlags study;
};

ModelStudyOptions options_of(const ModelFlags& flags, const Device& device, StageHook stage) {
  ModelStudyOptions options{.protocol = make_protocol(flags.protocol),
                            .scenarios = scenarios_of(flags.axes),
                            .optimizer = optimizer_of(flags.axes),
                            .weights = flags.weights,
                            .save_weights = flags.save_weights,
                            .seed = flags.study.seed,
                            .verify = !flags.study.no_verify,
                            .settings = settings_of(flags.device, device),
                            .interrupted = sweep_interrupted,
                            .stage = std::move(stage)};
  options.settings["optimizer"] = flags.axes.optimizer;
  if (flags.axes.max_norm > 0) options.settings["max_norm"] = flags.axes.max_norm;
  if (!flags.weights.empty()) options.settings["weights"] = flags.weights;
  // Beside a GPU the host's memory is free for parameters; on a CPU they would be there twice.
  if (device.has_own_memory())
    options.keep_on_host = Bytes{collect_machine_facts().memory_available.count / 4};
  return options;
}

int list_models() {
  print("sizes:\n");
  for (const TransformerConfig& config : transformer_sizes())
    print("  {:<8} {:>8.1f} M parameters: width {}, feed-forward {}, {} layers, {} heads\n",
          config.name, static_cast<double>(parameter_count(config)) / 1e6, config.d_model,
          config.d_ff, config.layers, config.heads);
  print("scenarios:\n");
  for (const ScenarioInfo& scenario : scenarios())
    print("  {:<10} {}\n", scenario.name, scenario.summary);
  print("modes:\n");
  for (const ModeInfo& mode : modes()) print("  {:<10} {}\n", mode.name, mode.summary);
  print("precisions:\n");
  for (const ModelPrecisionInfo& precision : model_precisions())
    print("  {:<10} {}\n", precision.name, precision.summary);
  return 0;
}

void explain_plans(const std::vector<ModelWorkload>& workloads, const ModelStudy& study,
                   const std::vector<SweepRow>& rows, const std::vector<Record>& records) {
  for (size_t i = 0; i < workloads.size(); ++i) {
    if (!info(workloads[i].mode).fuse) continue;
    const Record* measured = nullptr;
    for (const Record& record : records)
      if (workload_key(record) == workload_key(rows[i].described)) measured = &record;
    print("\n{}", study.explain(workloads[i], measured));
  }
}

int dry_run(const std::vector<ModelWorkload>& workloads, const ModelStudy& study,
            const Device& device) {
  Table table{
      .title = fmt::format("{} rows would run on {}", workloads.size(), device.description()),
      .columns = {"row", "Mparams", "predicted memory", "fits", "GFLOP forward"},
      .rows = {}};
  for (const ModelWorkload& workload : workloads) {
    const Bytes peak = study.predicted_peak(workload);
    table.rows.push_back(
        {label(workload),
         fmt::format("{:.2f}", static_cast<double>(parameter_count(workload.config)) / 1e6),
         to_string(peak), peak <= device.ledger().budget() ? "yes" : "no",
         fmt::format("{:.3f}", model_forward_flops(workload.config) / 1e9)});
  }
  print("{}", to_terminal(table));
  return 0;
}

// The flags that all rows share.
std::string shared_command(const ModelFlags& flags, const Device& device) {
  std::string command = fmt::format(
      "ridgeline model{}{} --seed {}{}", to_command(flags.device, device),
      to_command(make_protocol(flags.protocol)), flags.study.seed, to_command(flags.axes));
  if (!flags.weights.empty()) command += " --weights " + flags.weights;
  if (flags.study.no_verify) command += " --no-verify";
  return command;
}

// Rows of one command grow with their sizes: the first that did not fit is where to look.
void point_at_smallest_oom(const std::vector<ModelWorkload>& workloads, const ModelFlags& flags,
                           const Device& device, const std::vector<Record>& records) {
  const Record* smallest = nullptr;
  for (const Record& record : records)
    if (record.status == Status::oom && record.memory.predicted_peak &&
        (!smallest || *record.memory.predicted_peak < *smallest->memory.predicted_peak))
      smallest = &record;
  if (!smallest) return;
  const auto at = static_cast<size_t>(smallest - records.data());
  if (at >= workloads.size()) return;
  print("  - where the memory of the smallest that does not fit would go: ridgeline memory{}{}{}\n",
        to_command(flags.device, device), to_command(flags.axes), to_command(workloads[at]));
}

// Files of weights are looked at before the work; one file can hold one model.
void check_weight_files(const ModelFlags& flags, const std::vector<ModelWorkload>& workloads) {
  if (!flags.weights.empty())
    for (const ModelWorkload& workload : workloads)
      check_model_weights(flags.weights, workload.config);
  if (flags.save_weights.empty()) return;
  expect_full_step(flags.axes, "--save-weights");
  if (workloads.size() > 1)
    throw Error(ErrorKind::usage,
                fmt::format("{} rows would write their weights to '{}', from '{}' to '{}'",
                            workloads.size(), flags.save_weights, label(workloads.front()),
                            label(workloads.back())),
                "name one --impll-size, --context-length, --precision and --impl");
}

bool saved_weights(const Record& record) {
  const Json metrics = record.metrics.value_or(Json::object());
  const auto of = metrics.find(info(Scenario::full_step).series);
  return of != metrics.end() && of->contains("saved_weights");
}

int run_command(const ModelFlags& flags) {
  namespace fs = std::filesystem;
  if (flags.study.list) return list_models();
  const std::vector<ModelWorkload> workloads = workloads_of(flags.axes);
  check_weight_files(flags, workloads);
  const FileDescriptor weights =
      flags.save_weights.empty() ? FileDescriptor() : check_writable(flags.save_weights);
  Stages stages;
  const std::unique_ptr<Device> device = open_device(flags.device, stages.hook());
  ModelStudy study(*device, options_of(flags, *device, stages.hook()));
  if (flags.study.dry_run && !flags.explain) return dry_run(workloads, study, *device);

  const Record blank = blank_record(*device);
  const std::string command = shared_command(flags, *device);
  std::vector<SweepRow> rows;
  for (const ModelWorkload& workload : workloads) {
    Record record = study.describe(workload, blank);
    record.command = command + to_command(workload);
    const auto run = [&study, workload, record] { return study.run(workload, record); };
    rows.push_back({record, label(workload), study.expected_s(workload, record), run});
  }
  if (flags.study.dry_run) {
    dry_run(workloads, study, *device);
    explain_plans(workloads, study, rows, {});
    return 0;
  }
  const fs::path directory = fs::path(flags.study.results_dir) / "model";
  watch_for_interrupts();
  const SweepResult result =
      run_sweep(rows, {.records = directory / "model.jsonl",
                       .output = flags.study.output,
                       .resume = flags.study.resume,
                       .runs = flags.study.runs,
                       .budget = device->ledger().budget(),
                       .baseline = {flags.study.save_baseline, flags.study.results_dir},
                       .stages = &stages,
                       .table = model_csv,
                       .also_written = {{"--save-weights", flags.save_weights}}});
  if (result.records.empty()) return exit_code(result);
  print("Transformer study on {}\n\n{}\n", device->description(),
        to_terminal(model_summary(result.records), directory / "model.csv"));
  if (const Table ladder = ladder_table(result.records, "model"); !ladder.rows.empty()) {
    write_table(directory / "ladder.csv", ladder);
    print("{}\n", to_terminal(ladder, directory / "ladder.csv"));
  }
  if (const Table first = model_first_steps(result.records); !first.rows.empty())
    print("{}\n", to_terminal(first));
  for (const std::string& note : model_notes(result.records)) print("  - {}\n", note);
  point_at_smallest_oom(workloads, flags, *device, result.records);
  if (flags.explain) explain_plans(workloads, study, rows, result.records);
  print("\nRecords: {0}/model.jsonl\nCSV:     {0}/model.csv\n", directory.string());
  if (!flags.save_weights.empty())
    print("Weights: {}\n",
          saved_weights(result.records[0]) ? flags.save_weights : "not written, see above");
  return exit_code(result);
}

}  // namespace

Run add_model_command(CLI::App& app) {
  auto flags = std::make_shared<ModelFlags>();
  CLI::App* command = app.add_subcommand(
      "model", "whole transformers: vanilla against compiled, forward to full training step");
  add_model_axes(*command, flags->axes);
  add_protocol_flags(*command, flags->protocol);
  command->get_option("--num-iterations")->description("samples per scenario");
  command->get_option("--time-budget")
      ->description(time_budget_help(
          "seconds per row, shared by its scenarios, instead of a fixed number of samples"));
  command->add_flag("--explain", flags->explain,
                    "print the plans of compiled models: kernels and why, bytes, FLOPs, memory, "
                    "refusals; with --dry-run, without running them");
  command->add_option("--weights", flags->weights,
                      "begin with the parameters in this safetensors file");
  CLI::Option* save =
      command->add_option("--save-weights", flags->save_weights,
                          "write the parameters there after the last full step; of one row");
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "sizes, scenarios, modes and precisions");
  command->get_option("--no-verify")
      ->description(
          "do not look at the first loss nor at each kernel, nor compare compiled with vanilla");
  save->excludes(command->get_option("--resume"));  // which may leave nothing to be run
  command->footer(
      "Examples:\n"
      "  ridgeline model --context-length 128                small, vanilla and compiled\n"
      "  ridgeline model --model-size small large 2.7B --context-length 512 --precision mixed\n"
      "  ridgeline model --context-length 128 --impl compiled --dry-run --explain");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

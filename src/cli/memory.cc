// ridgeline memory: where the memory of attention, or of a whole model, goes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/file_io.h"
#include "base/print.h"
#include "cli/commands.h"
#include "cli/model_memory.h"
#include "cli/options.h"
#include "runtime/scratch.h"
#include "studies/attention/row.h"
#include "studies/device_facts.h"
#include "studies/memory/attention.h"

namespace ridgeline {
namespace {

struct MemoryFlags {
  AttentionConfig config{.batch_size = 8, .seq_len = 8192, .head_dim = 16};
  std::string dtype = "fp32";
  ModelMemoryFlags model;  // and what both share
};

// One run of forward and backward, if it fits; the account stands without it.
std::optional<MeasuredMemory> measure_once(const AttentionConfig& config, Device& device) {
  const AttentionStudyOptions options{.protocol = {.warmups = 0, .iterations = 1}, .verify = false};
  const AttentionWorkload workload{config, "naive"};
  const Record described = describe_attention(workload, device, options, {});
  if (*described.memory.predicted_peak > device.ledger().budget()) {
    print("The predicted peak of {} is above the budget of {}: predicted only.\n\n",
          to_string(*described.memory.predicted_peak), to_string(device.ledger().budget()));
    return std::nullopt;
  }
  const std::optional<Record> record = run_attention(workload, device, options, described);
  if (!record || !record->memory.peak) return std::nullopt;
  return MeasuredMemory{*record->memory.peak, record->memory.process_peak_growth,
                        record->memory.driver_peak_growth};
}

int show_attention_memory(const MemoryFlags& flags) {
  const ModelMemoryFlags& shared = flags.model;
  AttentionConfig config = flags.config;
  config.dtype = parse_float_dtype(flags.dtype);
  const std::unique_ptr<Device> device = open_device(shared.device);
  const auto measured = shared.dry_run ? std::nullopt : measure_once(config, *device);
  const std::string analysis = memory_analysis(config, measured, scratch_of(*device));
  print("{}", analysis);
  if (shared.dry_run) return 0;
  const std::filesystem::path path =
      std::filesystem::path(shared.results_dir) / "attention" /
      fmt::format("memory_analysis_d{}_s{}.txt", config.head_dim, config.seq_len);
  write_file_atomically(path, analysis);
  print("\nWritten to {}.\n", path.string());
  return 0;
}

// Flags of models that attention has, too, under another meaning or default.
void take_shared_sizes(const CLI::App& command, MemoryFlags& flags) {
  const ModelAxes& axes = flags.model.axes;
  if (command.count("--batch-size") > 0) flags.config.batch_size = axes.batch_size;
  if (axes.overrides.heads > 0) flags.config.heads = axes.overrides.heads;
  if (axes.overrides.d_model > 0) flags.config.head_dim = axes.overrides.d_model;
}

}  // namespace

Run add_memory_command(CLI::App& app) {
  auto flags = std::make_shared<MemoryFlags>();
  ModelMemoryFlags& shared = flags->model;
  shared.axes = {.sizes = {}, .context_lengths = {512}, .scenarios = {"full-step"}};
  CLI::App* command = app.add_subcommand(
      "memory", "where the memory of attention, or of a whole model, goes, tensor by tensor");
  CLI::Option* model_size = add_model_axes(*command, shared.axes);
  model_size->description(
      "a whole model instead of attention: small, medium, large, xl, 2.7B, 10B");
  command->get_option("--batch-size")
      ->description("independent sequences; of attention 8 unless given");
  command->get_option("--heads")->description("heads per sequence (1), or of the model");
  command->get_option("--d-model")
      ->description("width of one head, as --head-dim, or of the model's residual stream");
  for (const char* flag : {"--context-length", "--precision", "--impl", "--scenario", "--optimizer",
                           "--max-norm", "--d-ff", "--layers", "--vocabulary"})
    command->get_option(flag)->needs(model_size);
  command->add_flag("--measure", shared.measure, "of a model: also run one step, where it fits")
      ->needs(model_size);
  add_output_flags(*command, shared.output);
  for (const char* flag : {"--output", "--json"}) {
    CLI::Option* option = command->get_option(flag)->needs(model_size);
    option->description("of a model: " + option->get_description());
  }
  command->add_option("--seq-len", flags->config.seq_len, "sequence length of attention")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str()
      ->excludes(model_size);
  add_causal(*command, flags->config.causal);
  command->get_option("--causal")->excludes(model_size);
  command->add_option("--head-dim", flags->config.head_dim, "width of one head of attention")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str()
      ->excludes(model_size)
      ->excludes(command->get_option("--d-model"));
  command->add_option("--dtype", flags->dtype, "of attention: fp32, tf32, bf16 or fp16")
      ->capture_default_str()
      ->excludes(model_size);
  add_device_flags(*command, shared.device);
  command->add_option("--results-dir", shared.results_dir, "where the text goes")
      ->capture_default_str();
  command->add_flag("--dry-run", shared.dry_run, "predict only, run nothing, write no file");
  command->footer(
      "Examples:\n"
      "  ridgeline memory --batch-size 8 --seq-len 8192 --d-model 16\n"
      "  ridgeline memory --model-size 2.7B --context-length 512 --precision mixed\n"
      "  ridgeline memory --model-size xl --memory-budget 24GiB --scenario forward,full-step");
  return [flags, command] {
    if (!flags->model.axes.sizes.empty()) return show_model_memory(flags->model);
    take_shared_sizes(*command, *flags);
    return show_attention_memory(*flags);
  };
}

}  // namespace ridgeline

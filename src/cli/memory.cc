// ridgeline memory: where the memory of attention goes, predicted and, where it fits, measured.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "measure/file_io.h"
#include "studies/attention_study.h"
#include "studies/device_facts.h"
#include "studies/memory_accounting.h"

namespace ridgeline {
namespace {

struct MemoryFlags {
  AttentionConfig config{.seq_len = 8192, .head_dim = 16};
  std::string dtype = "fp32";
  DeviceFlags device;
  std::string results_dir = "results";
  bool dry_run = false;
};

CLI::Option* add_size(CLI::App& app, const std::string& flag, int64_t& size,
                      const std::string& description) {
  return app.add_option(flag, size, description)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
}

// One run of forward and backward, if it fits; the account stands without it.
std::optional<MeasuredMemory> measure_once(const AttentionConfig& config, Device& device) {
  const AttentionStudyOptions options{.protocol = {.warmups = 0, .iterations = 1}, .verify = false};
  const AttentionWorkload workload{config, "naive"};
  const Record described = describe_attention(workload, device, options, {});
  if (*described.memory.predicted_peak > device.ledger().budget()) {
    fmt::print("The predicted peak of {} is above the budget of {}: predicted only.\n\n",
               to_string(*described.memory.predicted_peak), to_string(device.ledger().budget()));
    return std::nullopt;
  }
  const std::optional<Record> record = run_attention(workload, device, options, described);
  if (!record || !record->memory.peak) return std::nullopt;
  return MeasuredMemory{*record->memory.before_backward, *record->memory.peak,
                        record->memory.process_peak_growth, record->memory.driver_peak_growth};
}

int run_command(MemoryFlags flags) {
  flags.config.dtype = parse_float_dtype(flags.dtype);
  const std::unique_ptr<Device> device = open_device(flags.device);
  const auto measured = flags.dry_run ? std::nullopt : measure_once(flags.config, *device);
  const std::string analysis = memory_analysis(flags.config, measured, scratch_of(*device));
  fmt::print("{}", analysis);
  if (flags.dry_run) return 0;
  const std::filesystem::path path =
      std::filesystem::path(flags.results_dir) / "attention" /
      fmt::format("memory_analysis_d{}_s{}.txt", flags.config.head_dim, flags.config.seq_len);
  write_file_atomically(path, analysis);
  fmt::print("\nWritten to {}.\n", path.string());
  return 0;
}

}  // namespace

Run add_memory_command(CLI::App& app) {
  auto flags = std::make_shared<MemoryFlags>();
  CLI::App* command =
      app.add_subcommand("memory", "where the memory of attention goes, tensor by tensor");
  add_size(*command, "--batch-size", flags->config.batch_size, "independent sequences");
  add_size(*command, "--heads", flags->config.heads, "heads per sequence");
  add_size(*command, "--seq-len", flags->config.seq_len, "sequence length");
  add_size(*command, "--d-model", flags->config.head_dim, "width of one head");
  command->add_flag("--causal", flags->config.causal,
                    "a query sees only keys up to its own position");
  command->add_option("--dtype", flags->dtype, "fp32, tf32, bf16 or fp16")->capture_default_str();
  add_device_flags(*command, flags->device);
  command->add_option("--results-dir", flags->results_dir, "where the text goes")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "predict only, run nothing");
  command->footer("Example: ridgeline memory --batch-size 8 --seq-len 8192 --d-model 16");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

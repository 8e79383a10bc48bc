// ridgeline kernel: one attention kernel, measured hot, cold and in a launch graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/failures.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "studies/attention/workload.h"
#include "studies/kernel/own_row.h"
#include "studies/kernel/row.h"
#include "studies/kernel/tables.h"
#include "studies/peers/peers.h"

namespace ridgeline {
namespace {

struct KernelFlags {
  std::vector<std::string> implementations = {"flash"};
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes = {"fp16", "bf16"};
  std::vector<std::string> modes;
  BackwardFlags backward;
  bool causal = false;
  int calls_per_sample = 0;
  int graph_calls = KernelStudyOptions().graph_calls;
  std::string source;  // of the user's own kernel; empty: none
  std::string entry;
  std::string time_limit = "10s";
  DeviceFlags device;
  ProtocolFlags protocol{.warmups = 200, .iterations = 500};
  StudyFlags study;
};

KernelMatrix matrix_of(const KernelFlags& flags, const Device& device) {
  KernelMatrix matrix{.implementations = flags.implementations,
                      .own = flags.entry,
                      .dtypes = flags.dtypes,
                      .modes = modes_of(device),
                      .causal = flags.causal,
                      .backward = backward_algorithms(flags.backward.algorithms, device.facts())};
  if (!flags.shapes.empty()) matrix.shapes.clear();
  for (const std::string& shape : flags.shapes) matrix.shapes.push_back(parse_kernel_shape(shape));
  if (!flags.modes.empty()) matrix.modes.clear();
  for (const std::string& mode : flags.modes) matrix.modes.push_back(parse_kernel_mode(mode));
  return matrix;
}

int list_kernels() {
  print("implementations:\n");
  for (const AttentionImplementation& implementation : attention_implementations())
    if (!info(implementation.mode).fuse)
      print("  {:<12} {}\n", implementation.name, implementation.summary);
  print("{}", peer_list());
  print("modes:\n");
  for (const KernelModeInfo& mode : kernel_modes()) print("  {:<12} {}\n", mode.name, mode.summary);
  print("shapes (batch, heads, sequence, head width) without --shape:\n");
  for (const KernelShape& shape : KernelMatrix().shapes)
    print("  {},{},{},{}\n", shape.batch_size, shape.heads, shape.seq_len, shape.head_dim);
  print("dtypes:\n  fp32, bf16, fp16; tf32 on a GPU\n");
  return 0;
}

int dry_run(const std::vector<KernelWorkload>& workloads, const KernelStudy& study,
            const Device& device) {
  const Record blank = blank_record(device);
  Table table{
      .title = fmt::format("{} rows would run on {}", workloads.size(), device.description()),
      .columns = {"row", "predicted memory", "fits", "MFLOP forward"},
      .rows = {}};
  for (const KernelWorkload& workload : workloads) {
    const Record record = study.describe(workload, blank);
    const std::optional<Bytes> peak = record.memory.predicted_peak;
    table.rows.push_back(
        {label(workload), peak ? to_string(*peak) : "-",
         record.status != Status::ok         ? std::string(status_csv_word(record.status))
         : !peak                             ? "-"
         : *peak <= device.ledger().budget() ? "yes"
                                             : "no",
         fmt::format("{:.3f}", static_cast<double>(record.cost->forward.flops) / 1e6)});
  }
  print("{}", to_terminal(table));
  return 0;
}

std::string row_command(const std::string& command, const KernelWorkload& workload,
                        const KernelFlags& flags) {
  const AttentionConfig& config = workload.config;
  const std::string who = workload.origin == Origin::own
                              ? fmt::format("--source {} --entry {} --time-limit {}", flags.source,
                                            flags.entry, flags.time_limit)
                              : "--impl " + workload.implementation;
  return fmt::format(
      "{} {} --shape {},{},{},{} --dtype {} --mode {}{}{}", command, who, config.batch_size,
      config.heads, config.seq_len, config.head_dim, info(config.dtype).name,
      info(workload.mode).name, config.causal ? " --causal" : "",
      flags.backward.asked ? fmt::format(" --backward {}", name(config.backward)) : "");
}

// The flags that all rows share.
std::string shared_command(const KernelFlags& flags, const Device& device,
                           const Protocol& protocol) {
  std::string command = "ridgeline kernel" + to_command(flags.device, device) +
                        to_command(protocol) + fmt::format(" --seed {}", flags.study.seed);
  if (flags.calls_per_sample > 0)
    command += fmt::format(" --calls-per-sample {}", flags.calls_per_sample);
  if (flags.graph_calls != KernelStudyOptions().graph_calls)
    command += fmt::format(" --graph-calls {}", flags.graph_calls);
  if (flags.study.no_verify) command += " --no-verify";
  return command;
}

std::unique_ptr<OwnKernelStudy> own_kernel(const KernelFlags& flags, Device& device,
                                           const KernelStudyOptions& options) {
  if (flags.source.empty()) return nullptr;
  return std::make_unique<OwnKernelStudy>(
      device,
      OwnKernel{.source = flags.source,
                .entry = flags.entry,
                .time_limit_s = parse_seconds(flags.time_limit),
                .worker_words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                 std::string(kOwnKernelWorkerCommand)}},
      options);
}

// An own kernel that gives no figures is a failed run, not a gap in a table.
int exit_code(const SweepResult& result, const std::string& own_entry) {
  const int code = exit_code(result);
  for (const Record& record : result.records)
    if (!own_entry.empty() && record.implementation == own_entry &&
        record.status == Status::invalid)
      return exit_code(ErrorKind::wrong_result);
  return code;
}

int run_command(const KernelFlags& flags) {
  namespace fs = std::filesystem;
  if (flags.study.list) return list_kernels();
  const std::unique_ptr<Device> device = open_device(flags.device);
  const std::vector<KernelWorkload> workloads = expand_matrix(matrix_of(flags, *device));
  const Protocol protocol = make_protocol(flags.protocol);
  const KernelStudyOptions options{.protocol = protocol,
                                   .seed = flags.study.seed,
                                   .verify = !flags.study.no_verify,
                                   .backward = flags.backward.asked,
                                   .calls_per_sample = flags.calls_per_sample,
                                   .graph_calls = flags.graph_calls,
                                   .settings = settings_of(flags.device, *device),
                                   .interrupted = sweep_interrupted};
  KernelStudy study(*device, options);
  Peers peers(*device, {.interrupted = interrupted});
  const std::unique_ptr<OwnKernelStudy> own = own_kernel(flags, *device, options);
  if (flags.study.dry_run) return dry_run(workloads, study, *device);

  const Record blank = blank_record(*device);
  const std::string command = shared_command(flags, *device, protocol);
  std::vector<SweepRow> rows;
  for (const KernelWorkload& workload : workloads) {
    Record record = study.describe(workload, blank);
    record.command = row_command(command, workload, flags);
    const auto run = [&, workload, record] {
      switch (workload.origin) {
        case Origin::own:
          return own->run(workload, record);
        case Origin::peer:
          return peers.run_kernel(workload, options, record);
        case Origin::ridgeline:
          break;
      }
      return study.run(workload, record);
    };
    rows.push_back({record, label(workload), study.expected_s(workload, record), run});
  }
  const fs::path directory = fs::path(flags.study.results_dir) / "kernel";
  watch_for_interrupts();
  const SweepResult result =
      run_sweep(rows, {.records = directory / "kernel.jsonl",
                       .output = flags.study.output,
                       .resume = flags.study.resume,
                       .runs = flags.study.runs,
                       .budget = device->ledger().budget(),
                       .baseline = {flags.study.save_baseline, flags.study.results_dir},
                       .table = kernel_csv,
                       .array = directory / "kernel.json"});
  if (result.records.empty()) return exit_code(result);
  say_failures(result.records, flags.entry);
  print("Kernel study on {}\n\n{}\n", device->description(),
        to_terminal(kernel_summary(result.records), directory / "kernel.csv"));
  for (const std::string& note : kernel_notes(result.records)) print("  - {}\n", note);
  print("\nRecords: {0}/kernel.jsonl\nJSON:    {0}/kernel.json\nCSV:     {0}/kernel.csv\n",
        directory.string());
  return exit_code(result, flags.entry);
}

}  // namespace

Run add_kernel_command(CLI::App& app) {
  auto flags = std::make_shared<KernelFlags>();
  CLI::App* command = app.add_subcommand(
      "kernel", "latency and rates of one attention kernel: hot, cold, in a launch graph");
  add_implementations(*command, flags->implementations, "implementations, such as flash,naive")
      ->capture_default_str();
  command->add_option(
      "--shape", flags->shapes,
      "batch,heads,sequence,width; give it again for more shapes (default: the four "
      "that --list shows)");
  add_dtypes(*command, flags->dtypes)->capture_default_str();
  command
      ->add_option("--mode", flags->modes,
                   "hot, cold, cold-rotate, graph (default: all that the device has)")
      ->delimiter(',');
  add_causal(*command, flags->causal);
  add_backward(*command, flags->backward);
  command
      ->add_option("--calls-per-sample", flags->calls_per_sample,
                   "calls back to back in one sample, hot and cold-rotate (default: 10 on a GPU, "
                   "so that its queue stays filled, 1 on a CPU)")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--graph-calls", flags->graph_calls, "calls in one launch graph")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  CLI::Option* source =
      command->add_option("--source", flags->source,
                          "a CUDA kernel of your own, measured beside the others (a .cu file)");
  CLI::Option* entry = command->add_option("--entry", flags->entry, "the name of your kernel");
  source->needs(entry);
  entry->needs(source);
  command
      ->add_option("--time-limit", flags->time_limit,
                   "of your kernel: one that runs longer is ended and called hanging")
      ->capture_default_str();
  add_protocol_flags(*command, flags->protocol);
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "implementations, modes, shapes and dtypes");
  command->footer(
      "Examples:\n"
      "  ridgeline kernel                                    the matrix of shapes, fp16 and bf16\n"
      "  ridgeline kernel --shape 32,8,256,64 --mode hot,graph --dtype bf16\n"
      "  ridgeline kernel --impl flash,naive --backward --shape 1,16,4096,64 --num-iterations 50\n"
      "  ridgeline kernel --impl flash,torch.sdpa.cudnn --shape 1,16,4096,64   beside PyTorch\n"
      "  ridgeline kernel --source mine.cu --entry my_attention   a kernel of your own");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline

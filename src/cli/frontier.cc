// ridgeline frontier: the longest sequence that fits, per implementation and batch.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <memory>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/sweep.h"
#include "studies/frontier/row.h"
#include "studies/frontier/tables.h"

namespace ridgeline {
namespace {

struct FrontierFlags {
  std::vector<std::string> implementations = {"naive", "flash"};
  std::vector<int64_t> batch_sizes = {1, 8};
  std::vector<int64_t> head_dims = {64};
  std::vector<int64_t> heads = {1};
  std::vector<std::string> dtypes = {"fp32"};
  bool causal = false;
  int64_t step = FrontierOptions().step;
  int64_t max_seq_len = FrontierOptions().max_seq_len;
  int max_probes = FrontierOptions().max_probes;
  std::string run_limit = "20s";
  std::string probe_patience = "5min";
  DeviceFlags device;
  StudyFlags study;
};

std::vector<AttentionWorkload> workloads_of(const FrontierFlags& flags, const Device& device) {
  return expand_matrix({.batch_sizes = flags.batch_sizes,
                        .head_dims = flags.head_dims,
                        .seq_lens = {flags.step},
                        .heads = flags.heads,
                        .dtypes = flags.dtypes,
                        .implementations = flags.implementations,
                        .causal = flags.causal,
                        .backward = {backward_algorithm({}, device.facts())}});
}

std::string label_without_length(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  return fmt::format("{} d={} batch={} {}", workload.implementation, config.head_dim,
                     config.batch_size, info(config.dtype).name);
}

std::vector<std::string> problem_words(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  std::vector<std::string> words = {"--impl",       workload.implementation,
                                    "--batch-size", fmt::to_string(config.batch_size),
                                    "--heads",      fmt::to_string(config.heads),
                                    "--d-model",    fmt::to_string(config.head_dim),
                                    "--dtype",      std::string(info(config.dtype).name)};
  if (config.causal) words.emplace_back("--causal");
  return words;
}

// One length in a child, which may run into the system's OOM killer instead of us.
std::optional<ProbeResult> probe_in_child(const AttentionWorkload& workload, ProbeMethod method,
                                          const FrontierFlags& flags, const Device& device) {
  DeviceFlags same = flags.device;
  if (same.device == "auto") same.device = device.name();
  same.threads = device.facts().threads;
  same.memory_budget = fmt::format("{}B", device.ledger().budget().count);
  std::vector<std::string> words = {"/proc/self/exe", kFrontierProbeCommand,
                                    "--seq-len",      fmt::to_string(workload.config.seq_len),
                                    "--method",       std::string(name(method))};
  for (const std::vector<std::string>& more : {to_words(same), problem_words(workload)})
    words.insert(words.end(), more.begin(), more.end());
  const double begin = monotonic_s();
  ChildProcess child(words);
  const ChildProcess::Reply reply =
      child.read_line({.seconds = parse_seconds(flags.probe_patience), .interrupted = interrupted});
  ProbeResult result;
  result.seconds = monotonic_s() - begin;
  switch (reply.outcome) {
    case ChildProcess::Outcome::interrupted:
      return std::nullopt;
    case ChildProcess::Outcome::too_slow:
      result.detail = fmt::format("no answer within {}", flags.probe_patience);
      return result;
    case ChildProcess::Outcome::ended: {
      const std::string how = child.end(5);
      result.outcome = how.starts_with("signal 9") ? ProbeResult::Outcome::out_of_memory
                                                   : ProbeResult::Outcome::failed;
      result.detail = fmt::format("the probe ended with {}{}{}", how,
                                  child.last_errors().empty() ? "" : ": ", child.last_errors());
      return result;
    }
    case ChildProcess::Outcome::too_long:
      result.detail = "an answer longer than any";
      return result;
    case ChildProcess::Outcome::line:
      break;
  }
  child.end(30);
  const Json answer = Json::try_parse(reply.line).value_or(nullptr);
  const Json* peak = answer.find_key("peak_bytes");
  if (!peak || !peak->is_number_integer()) {
    result.outcome = ProbeResult::Outcome::out_of_memory;
    result.detail = answer.value("out_of_memory", printable(reply.line));
    return result;
  }
  result.outcome = ProbeResult::Outcome::fits;
  result.peak = Bytes{peak->get<int64_t>()};
  return result;
}

int list_frontiers() {
  print("implementations:\n");
  for (const AttentionImplementation& implementation : attention_implementations())
    print("  {:<12} {}\n", implementation.name, implementation.summary);
  print("dtypes:\n  fp32, bf16, fp16; tf32 on a GPU\n");
  return 0;
}

// A search that its end stops says so: the memory would hold more.
std::string predicted_longest(const Record& record, const FrontierFlags& flags) {
  if (record.status != Status::ok) return std::string(status_csv_word(record.status));
  const int64_t longest = (*record.metrics)["predicted_seq_len"].get<int64_t>();
  return fmt::format("{}{}", longest,
                     longest + flags.step > flags.max_seq_len ? ", all of --max-seq-len" : "");
}

int dry_run(const std::vector<SweepRow>& rows, const FrontierFlags& flags, const Device& device) {
  Table table{.title = fmt::format("{} searches would run on {}, budget {}", rows.size(),
                                   device.description(), to_string(device.ledger().budget())),
              .columns = {"row", "predicted longest sequence", "predicted peak"},
              .rows = {}};
  for (const SweepRow& row : rows)
    table.rows.push_back({row.label, predicted_longest(row.described, flags),
                          row.described.memory.predicted_peak
                              ? to_string(*row.described.memory.predicted_peak)
                              : std::string()});
  print("{}", to_terminal(table));
  return 0;
}

int run_command(const FrontierFlags& flags) {
  namespace fs = std::filesystem;
  if (flags.study.list) return list_frontiers();
  const double patience_s = parse_seconds(flags.probe_patience);
  const std::unique_ptr<Device> device = open_device(flags.device);
  const std::vector<AttentionWorkload> workloads = workloads_of(flags, *device);
  FrontierOptions options{
      .probe = [&](const AttentionWorkload& workload,
                   ProbeMethod method) { return probe_in_child(workload, method, flags, *device); },
      .step = flags.step,
      .max_seq_len = flags.max_seq_len,
      .max_probes = flags.max_probes,
      .run_limit_s = parse_seconds(flags.run_limit),
      .seed = flags.study.seed,
      .settings = settings_of(flags.device, *device)};
  options.settings["probe_patience_s"] = patience_s;
  const Record blank = blank_record(*device);
  std::vector<SweepRow> rows;
  for (const AttentionWorkload& workload : workloads) {
    Record record = describe_frontier(workload, *device, options, blank);
    record.command =
        "ridgeline frontier" + to_command(flags.device, *device) +
        fmt::format(
            " --step {} --max-seq-len {} --max-probes {} --run-limit {} --probe-patience {}",
            flags.step, flags.max_seq_len, flags.max_probes, flags.run_limit, flags.probe_patience);
    for (const std::string& word : problem_words(workload)) record.command += " " + word;
    const auto run = [&device, &options, workload, record] {
      return find_frontier(workload, *device, options, record);
    };
    rows.push_back({record, label_without_length(workload),
                    expected_frontier_s(workload, *device, options, record), run});
  }
  if (flags.study.dry_run) return dry_run(rows, flags, *device);
  const fs::path directory = fs::path(flags.study.results_dir) / "frontier";
  watch_for_interrupts();
  const SweepResult result =
      run_sweep(rows, {.records = directory / "frontier.jsonl",
                       .output = flags.study.output,
                       .resume = flags.study.resume,
                       .runs = flags.study.runs,
                       .budget = device->ledger().budget(),
                       .baseline = {flags.study.save_baseline, flags.study.results_dir},
                       .table = frontier_csv});
  if (result.records.empty()) return exit_code(result);
  print("Out-of-memory frontier on {}\n\n{}\n", device->description(),
        to_terminal(frontier_summary(result.records), directory / "frontier.csv"));
  for (const std::string& note : frontier_notes(result.records)) print("  - {}\n", note);
  print("\nRecords: {0}/frontier.jsonl\nCSV:     {0}/frontier.csv\n", directory.string());
  return exit_code(result);
}

// If memory runs out for everybody, this process goes first.
void volunteer_for_oom_killer() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  if (write(file, "1000", 4) < 0) { /* then the system chooses by itself */
  }
  close(file);
}

struct ProbeFlags {
  std::string implementation = "naive", dtype = "fp32", method = "run";
  AttentionConfig config;
  DeviceFlags device;
};

int answer_probe(const ProbeFlags& flags) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  volunteer_for_oom_killer();
  const std::unique_ptr<Device> device = open_device(flags.device);
  AttentionWorkload workload{flags.config, flags.implementation};
  workload.config.dtype = parse_float_dtype(flags.dtype);
  workload.config.backward = backward_algorithm({}, device->facts());
  Json answer;
  try {
    answer["peak_bytes"] = probe_length(workload, *device, parse_probe_method(flags.method)).count;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    answer["out_of_memory"] = error.message();
  }
  print("{}\n", answer.dump());
  return 0;
}

}  // namespace

Run add_frontier_command(CLI::App& app) {
  auto flags = std::make_shared<FrontierFlags>();
  CLI::App* command =
      app.add_subcommand("frontier", "the longest sequence of attention that fits in memory");
  add_implementations(*command, flags->implementations, "implementations, such as naive,flash")
      ->capture_default_str();
  add_sizes(*command, "--batch-size", flags->batch_sizes, "independent sequences")
      ->capture_default_str();
  add_head_dims(*command, flags->head_dims)->capture_default_str();
  add_sizes(*command, "--heads", flags->heads, "heads per sequence")->capture_default_str();
  add_causal(*command, flags->causal);
  add_dtypes(*command, flags->dtypes)->capture_default_str();
  command->add_option("--step", flags->step, "lengths are multiples of this")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--max-seq-len", flags->max_seq_len, "the longest length looked at")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 26))
      ->capture_default_str();
  command->add_option("--max-probes", flags->max_probes, "child processes per row")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      ->add_option("--run-limit", flags->run_limit,
                   "a probe that would compute for longer only takes and touches the memory")
      ->capture_default_str();
  command->add_option("--probe-patience", flags->probe_patience, "then a probe counts as failed")
      ->capture_default_str();
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "implementations and dtypes");
  command->remove_option(command->get_option("--no-verify"));
  command->footer(
      "Examples:\n"
      "  ridgeline frontier --memory-budget 2GiB --batch-size 1,8,32\n"
      "  ridgeline frontier --dry-run --memory-budget 24GB --dtype bf16   what a 24 GB card holds");
  return [flags] { return run_command(*flags); };
}

Run add_frontier_probe_command(CLI::App& app) {
  auto flags = std::make_shared<ProbeFlags>();
  CLI::App* command =
      app.add_subcommand(kFrontierProbeCommand, "tries one length and answers in one line")
          ->group("");
  command->add_option("--impl", flags->implementation, "implementation");
  command->add_option("--dtype", flags->dtype, "dtype");
  command->add_option("--method", flags->method, "run or allocate");
  command->add_option("--batch-size", flags->config.batch_size, "batch");
  command->add_option("--heads", flags->config.heads, "heads");
  command->add_option("--d-model", flags->config.head_dim, "width of one head");
  command->add_option("--seq-len", flags->config.seq_len, "length");
  command->add_flag("--causal", flags->config.causal, "causal");
  add_device_flags(*command, flags->device);
  return [flags] { return answer_probe(*flags); };
}

}  // namespace ridgeline

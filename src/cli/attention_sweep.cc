#include "cli/attention_sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "base/error.h"
#include "cli/build_facts.h"
#include "cli/interrupt.h"
#include "measure/file_io.h"
#include "measure/read_results.h"
#include "measure/record_json.h"
#include "measure/results_file.h"
#include "report/attention_report.h"
#include "report/progress.h"
#include "studies/memory_accounting.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

void say(const std::string& text) {
  fmt::print(stderr, "ridgeline: {}\n", text);
}

// What an earlier run left is never overwritten: without --resume it moves aside under the time of
// its last change.
void set_aside(const fs::path& path) {
  std::error_code problem;  // whatever stands in the way is reported by ResultsFile
  if (fs::file_size(path, problem) == 0 || problem) return;
  const ResultsFile held(path);  // refuses while another run still writes it
  const auto changed = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(
          std::chrono::file_clock::to_sys(fs::last_write_time(path))));
  for (int attempt = 0;; ++attempt) {
    const fs::path aside =
        path.parent_path() / fmt::format("{}-{}{}{}", path.stem().string(), utc_text(changed),
                                         attempt > 0 ? fmt::format("-{}", attempt) : "",
                                         path.extension().string());
    if (fs::exists(aside)) continue;
    fs::rename(path, aside);
    say(fmt::format("kept the earlier results as {}", aside.string()));
    return;
  }
}

std::map<std::string, Record> records_to_keep(const fs::path& path) {
  std::map<std::string, Record> kept;
  std::error_code missing;
  if (!fs::exists(path, missing)) return kept;
  const ReadResult found = read_results(path);
  for (const LineProblem& problem : found.problems)
    say(fmt::format("{} line {}: {}; that row runs again", path.string(), problem.line_number,
                    problem.reason));
  for (const Record& record : found.records) kept.insert_or_assign(workload_key(record), record);
  return kept;
}

// A row that ran out of memory under a smaller budget deserves another try.
bool fits_now(const Record& record, Bytes budget) {
  return record.status == Status::oom && record.memory.predicted_peak <= budget;
}

std::string row_command(const std::string& command, const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  return fmt::format(
      "{} --impl {} --batch-size {} --heads {} --d-model {} --seq-len {} --dtype {}{}{}", command,
      workload.implementation, config.batch_size, config.heads, config.head_dim, config.seq_len,
      info(config.dtype).name, config.causal ? " --causal" : "",
      config.backward == BackwardAlgorithm::two_pass ? " --backward two-pass" : "");
}

void write_outputs(const std::vector<Record>& records, const SweepOptions& options) {
  write_table(options.directory / "attention.csv", attention_csv(records));
  if (options.output.empty()) return;
  if (output_format(options.output) != OutputFormat::jsonl) {
    write_table(options.output, attention_csv(records));
    return;
  }
  std::string lines;
  for (const Record& record : records) lines += to_line(record);
  write_file_atomically(options.output, lines);
}

AttentionConfig config_of(const Record& record) {
  return {.batch_size = record.workload["batch_size"],
          .heads = record.workload["heads"],
          .seq_len = record.workload["seq_len"],
          .head_dim = record.workload["d_model"],
          .causal = record.workload["causal"],
          .dtype = parse_float_dtype(record.workload["dtype"].get<std::string>())};
}

// The smallest configuration that did not fit is accounted for by itself.
void account_smallest_oom(const std::vector<Record>& records, const fs::path& directory) {
  const Record* smallest = smallest_oom(records);
  if (smallest == nullptr) return;
  const AttentionConfig config = config_of(*smallest);
  const std::string analysis = memory_analysis(config, std::nullopt);
  const fs::path path =
      directory / fmt::format("memory_analysis_d{}_s{}.txt", config.head_dim, config.seq_len);
  write_file_atomically(path, analysis);
  fmt::print(
      "\nSmallest out-of-memory configuration: {} at batch {}, d_model {}, seq_len {}.\n"
      "  {}\n  Its memory account is in {}.\n",
      smallest->implementation, config.batch_size, config.head_dim, config.seq_len, smallest->error,
      path.string());
}

void show(const std::vector<Record>& records, const SweepOptions& options) {
  fmt::print("\n{}", to_text(attention_summary(records)));
  for (const Table& table : attention_side_by_side(records)) fmt::print("\n{}", to_text(table));
  account_smallest_oom(records, options.directory);
  const std::vector<std::string> sentences = explain_attention(records);
  if (!sentences.empty()) fmt::print("\nWhat this shows:\n");
  for (const std::string& sentence : sentences) fmt::print("  - {}\n", sentence);
  fmt::print("\nRecords: {}\nCSV:     {}\n", (options.directory / "attention.jsonl").string(),
             (options.directory / "attention.csv").string());
}

}  // namespace

SweepResult run_attention_sweep(const std::vector<AttentionWorkload>& workloads, CpuDevice& device,
                                const SweepOptions& options) {
  if (!options.output.empty())
    output_format(options.output);  // an unknown ending is an error before the work
  const Record blank = blank_record();
  std::vector<Record> described;
  std::vector<double> weights;
  for (const AttentionWorkload& workload : workloads) {
    Record record = describe_attention(workload, device, options.study, blank);
    record.command = row_command(options.command, workload);
    weights.push_back(static_cast<double>(record.cost->forward.macs + record.cost->backward.macs));
    described.push_back(std::move(record));
  }

  const fs::path path = options.directory / "attention.jsonl";
  std::map<std::string, Record> kept;
  if (options.resume)
    kept = records_to_keep(path);
  else
    set_aside(path);
  ResultsFile file(path);
  if (file.repair()) say(*file.repair());
  SweepResult result;
  Progress progress(weights, terminal_progress());
  try {
    for (size_t i = 0; i < workloads.size() && !result.interrupted; ++i) {
      const auto found = kept.find(workload_key(described[i]));
      if (found != kept.end() && !fits_now(found->second, device.ledger().budget())) {
        result.records.push_back(found->second);
        progress.skip(i);
        continue;
      }
      progress.begin(i, label(workloads[i]));
      std::optional<Record> record =
          run_attention(workloads[i], device, options.study, described[i]);
      if (record) {
        file.append(*record);
        result.records.push_back(std::move(*record));
      }
      result.interrupted = !record || interrupted();
    }
  } catch (...) {
    progress.clear();
    // Whatever ended the sweep, the rows so far are on the disk; the CSV follows if it can.
    try {
      if (!result.records.empty()) write_outputs(result.records, options);
    } catch (const Error&) {
    }
    throw;
  }
  progress.clear();
  if (result.interrupted)
    say(fmt::format("interrupted after {} of {} rows; --resume goes on from here",
                    result.records.size(), workloads.size()));
  if (result.records.empty()) return result;
  write_outputs(result.records, options);
  show(result.records, options);
  return result;
}

int exit_code(const SweepResult& result) {
  if (result.interrupted) return kInterruptedExit;
  for (const Record& record : result.records)
    if (record.status == Status::wrong) return exit_code(ErrorKind::wrong_result);
  return 0;
}

}  // namespace ridgeline

#include "cli/attention_sweep.h"

#include <fmt/format.h>

#include "base/file_io.h"
#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/failures.h"
#include "report/terminal/ladder.h"
#include "runtime/scratch.h"
#include "studies/attention/tables.h"
#include "studies/device_facts.h"
#include "studies/expected_time.h"
#include "studies/memory/attention.h"
#include "studies/peers/peers.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

std::string row_command(const std::string& command, const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  return fmt::format(
      "{} --impl {} --batch-size {} --heads {} --d-model {} --seq-len {} --dtype {}{}{}", command,
      workload.implementation, config.batch_size, config.heads, config.head_dim, config.seq_len,
      info(config.dtype).name, config.causal ? " --causal" : "",
      config.backward == BackwardAlgorithm::two_pass ? " --backward two-pass" : "");
}

AttentionConfig config_of(const Record& record) {
  return {.batch_size = record.workload["batch_size"].get<int64_t>(),
          .heads = record.workload["heads"].get<int64_t>(),
          .seq_len = record.workload["seq_len"].get<int64_t>(),
          .head_dim = record.workload["d_model"].get<int64_t>(),
          .causal = record.workload["causal"].get<bool>(),
          .dtype = parse_float_dtype(record.workload["dtype"].get<std::string>())};
}

// The smallest configuration that did not fit is accounted for by itself.
void account_smallest_oom(const std::vector<Record>& records, const Device& device,
                          const fs::path& directory) {
  const Record* smallest = smallest_oom(records);
  if (smallest == nullptr) return;
  const AttentionConfig config = config_of(*smallest);
  const std::string analysis = memory_analysis(config, std::nullopt, scratch_of(device));
  const fs::path path =
      directory / fmt::format("memory_analysis_d{}_s{}.txt", config.head_dim, config.seq_len);
  write_file_atomically(path, analysis);
  print(
      "\nSmallest out-of-memory configuration: {} at batch {}, d_model {}, seq_len {}.\n"
      "  {}\n  Its memory account is in {}.\n",
      smallest->implementation, config.batch_size, config.head_dim, config.seq_len, smallest->error,
      path.string());
}

void show(const std::vector<Record>& records, const Device& device,
          const AttentionSweepOptions& options) {
  const fs::path csv = options.directory / "attention.csv";
  print("\n{}", to_terminal(attention_summary(records), csv));
  if (const std::string note = attention_memory_note(records); !note.empty()) print("{}\n", note);
  for (const Table& table : attention_side_by_side(records)) print("\n{}", to_terminal(table, csv));
  if (const Table ladder = ladder_table(records, "attention"); !ladder.rows.empty()) {
    write_table(options.directory / "ladder.csv", ladder);
    print("\n{}", to_terminal(ladder, options.directory / "ladder.csv"));
  }
  account_smallest_oom(records, device, options.directory);
  const std::vector<std::string> sentences = explain_attention(records);
  if (!sentences.empty()) print("\nWhat this shows:\n");
  for (const std::string& sentence : sentences) print("  - {}\n", sentence);
  print("\nRecords: {}\nCSV:     {}\n", (options.directory / "attention.jsonl").string(),
        csv.string());
}

}  // namespace

SweepResult run_attention_sweep(const std::vector<AttentionWorkload>& workloads, Device& device,
                                const AttentionSweepOptions& options) {
  const Record blank = blank_record(device);
  Peers peers(device, {.interrupted = options.study.interrupted});
  std::vector<SweepRow> rows;
  for (const AttentionWorkload& workload : workloads) {
    const bool is_peer = find_peer(workload.implementation) != nullptr;
    Record record = is_peer ? describe_peer_attention(workload, device, options.study, blank)
                            : describe_attention(workload, device, options.study, blank);
    record.command = row_command(options.command, workload);
    const double expected_s =
        expected_attention_s(workload.config, record, device,
                             {.protocol = options.study.protocol, .verify = options.study.verify});
    const auto run = [&device, &options, &peers, is_peer, workload, record] {
      return is_peer ? peers.run_attention(workload, options.study, record)
                     : run_attention(workload, device, options.study, record);
    };
    rows.push_back({record, label(workload), expected_s, run});
  }
  const SweepResult result = run_sweep(rows, {.records = options.directory / "attention.jsonl",
                                              .output = options.output,
                                              .resume = options.resume,
                                              .runs = options.runs,
                                              .budget = device.ledger().budget(),
                                              .baseline = options.baseline,
                                              .stages = options.stages,
                                              .table = attention_csv});
  say_failures(result.records);
  if (!result.records.empty()) show(result.records, device, options);
  return result;
}

}  // namespace ridgeline

// The attention study: time and memory of attention over a grid of sizes.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "runtime/scratch.h"
#include "studies/attention/row.h"
#include "studies/attention/tables.h"
#include "studies/expected_time.h"
#include "studies/memory/attention.h"
#include "studies/peers/peers.h"
#include "studies/study.h"

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

// Writes a memory analysis of the smallest configuration that did not fit.
void account_smallest_oom(const std::vector<Record>& records, const StudyRun& run) {
  const Record* smallest = smallest_oom(records);
  if (smallest == nullptr) return;
  const std::optional<AttentionConfig> found = attention_config_of(*smallest);
  if (!found) return;
  const AttentionConfig& config = *found;
  const fs::path path =
      run.folder / fmt::format("memory_analysis_d{}_s{}.txt", config.head_dim, config.seq_len);
  write_file_atomically(path, memory_analysis(config, {}, scratch_of(run.device)));
  print(
      "\nSmallest out-of-memory configuration: {} at batch {}, d_model {}, seq_len {}.\n"
      "  {}\n  Its memory account is in {}.\n",
      smallest->implementation, config.batch_size, config.head_dim, config.seq_len, smallest->error,
      path.string());
}

class Attention final : public Study {
 public:
  void declare(Flags& flags) override {
    Words implementations = names_of(attention_implementations());
    for (const PeerImplementation& peer : kAttentionPeers) implementations.emplace_back(peer.name);
    add_implementations(flags, &implementations_, "implementations (default: naive,compiled,flash)",
                        implementations);
    flags.add("--preset", &preset_, "cs336, flash, leaderboard or study",
              {.shows_default = true, .choices = names_of(attention_presets())});
    flags.add("--batch-size", &batch_sizes_, "independent sequences");
    add_head_dims(flags, &head_dims_);
    flags.add("--seq-len", &seq_lens_, "sequence lengths");
    flags.add("--heads", &heads_, "heads per sequence");
    add_causal(flags, &causal_);
    add_dtypes(flags, &dtypes_);
    add_backward(flags, &backward_);
    flags.add("--explain", &explain_,
              "print the plans of compiled rows: what was recognised, kernels and why, "
              "memory, refusals; with --dry-run, without running them");
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared, {.list = "implementations, presets and dtypes"});
  }

  std::string list() const override {
    return "implementations:\n" + listed(attention_implementations()) + kAttentionPeers.list() +
           "presets:\n" + listed(attention_presets()) + kListedDtypes;
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    workloads_ = workloads(run.device);
    if (explain_ && std::none_of(workloads_.begin(), workloads_.end(), is_planned))
      throw Error(ErrorKind::usage, "--explain is about compiled rows, and none of these is",
                  "add compiled to --impl");
    options_ = {.row = row_options(run, shared),
                .try_beyond_budget = find_attention_preset(preset_).try_beyond_budget};
    runner_.emplace(run.device, options_);
    peers_.emplace(run.device, run.interrupted);
    const std::string command =
        fmt::format("ridgeline attention{}{}", shared_words(run, shared),
                    options_.try_beyond_budget ? "" : " --preset " + preset_);
    std::vector<StudyRow> rows;
    for (const AttentionWorkload& workload : workloads_) {
      const bool is_peer = kAttentionPeers.find(workload.implementation) != nullptr;
      Record record = is_peer ? describe_peer_attention(workload, run.device, options_, run.blank)
                              : runner_->describe(workload, run.blank);
      record.command = row_command(command, workload);
      const double expected_s =
          expected_attention_s(workload.config, record, run.device,
                               {.protocol = run.protocol, .verify = !shared.no_verify});
      rows.push_back({record, label(workload), expected_s, [this, is_peer, workload, record] {
                        return is_peer ? peers_->run_attention(workload, options_, record)
                                       : runner_->run(workload, record);
                      }});
    }
    return rows;
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const CostFacts& cost = *row.described.cost;
    const auto flops = static_cast<double>(cost.forward.flops + cost.backward.flops);
    return {{"GFLOP forward + backward", fmt::format("{:.3f}", flops / 1e9)}};
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    print("\n{}", to_terminal(attention_summary(records), run.file("csv")));
    if (const std::string note = attention_memory_note(records); !note.empty()) print("{}\n", note);
    for (const Table& table : attention_side_by_side(records))
      print("\n{}", to_terminal(table, run.file("csv")));
    if (const std::string ladder = ladder_text(run, records); !ladder.empty())
      print("\n{}", ladder);
    account_smallest_oom(records, run);
    const std::vector<std::string> sentences = with_verdicts<explain_attention>(records);
    if (!sentences.empty()) print("\nWhat this shows:\n");
    print_notes(sentences);
  }

  void show_last(StudyRun& run, const std::vector<StudyRow>&, const std::vector<Record>&) override {
    for (const AttentionWorkload& workload : workloads_)
      if (explain_ && is_planned(workload)) print("\n{}", explain_plan(workload, run.device));
  }

  bool set_up(const StudySetup& setup) override {
    preset_ = "study";
    shared.protocol.warmups = 3;
    return setup.attempt == 0;
  }

 private:
  // The preset, with axes replaced by those given on the command line. Matrices that then have
  // rows in common give each once.
  std::vector<AttentionWorkload> workloads(const Device& device) const {
    const auto prefer = [](auto& target, const auto& given) {
      if (!given.empty()) target = given;
    };
    std::vector<AttentionWorkload> all;
    for (AttentionMatrix matrix : find_attention_preset(preset_).matrices) {
      prefer(matrix.batch_sizes, batch_sizes_);
      prefer(matrix.head_dims, head_dims_);
      prefer(matrix.seq_lens, seq_lens_);
      prefer(matrix.heads, heads_);
      prefer(matrix.dtypes, dtypes_);
      prefer(matrix.implementations, implementations_);
      matrix.causal = matrix.causal || causal_;
      matrix.backward = backward_algorithms(backward_.algorithms, device.facts());
      for (AttentionWorkload& workload : expand_matrix(matrix))
        if (std::ranges::find(all, workload) == all.end()) all.push_back(std::move(workload));
    }
    return all;
  }

  std::string preset_ = "cs336";
  Words implementations_, dtypes_;
  std::vector<int64_t> batch_sizes_, head_dims_, seq_lens_, heads_;
  BackwardFlags backward_;
  bool causal_ = false;
  bool explain_ = false;
  std::vector<AttentionWorkload> workloads_;
  AttentionStudyOptions options_;
  std::optional<AttentionRunner> runner_;
  std::optional<Peers> peers_;
};

}  // namespace

StudyInfo attention_study() {
  return {.name = "attention",
          .summary = "time and memory of attention over a grid of sizes",
          .examples =
              "Example: ridgeline attention --impl naive,flash --d-model 64 --seq-len 256,1024 "
              "--num-iterations 20",
          .make = make_study<Attention>,
          .csv = attention_csv,
          .in_reports = "Attention",
          .sections = {attention_time_section, attention_memory_section},
          .takes_turns = true,
          .turn = 6,
          .has_folder = false};
}

}  // namespace ridgeline

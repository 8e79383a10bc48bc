// The frontier study: the longest sequence that fits, per implementation and batch.
#include <fmt/format.h>

#include "studies/frontier/probe.h"
#include "studies/frontier/row.h"
#include "studies/frontier/tables.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

std::string label_without_length(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  return fmt::format("{} d={} batch={} {}", workload.implementation, config.head_dim,
                     config.batch_size, info(config.dtype).name);
}

class Frontier final : public Study {
 public:
  void declare(Flags& flags) override {
    const FlagRules shown{.shows_default = true};
    add_implementations(flags, &matrix_.implementations, "implementations, such as naive,flash",
                        names_of(attention_implementations()))
        .rules.shows_default = true;
    flags.add("--batch-size", &matrix_.batch_sizes, "independent sequences", shown);
    add_head_dims(flags, &matrix_.head_dims).rules.shows_default = true;
    flags.add("--heads", &matrix_.heads, "heads per sequence", shown);
    add_causal(flags, &matrix_.causal);
    add_dtypes(flags, &matrix_.dtypes).rules.shows_default = true;
    flags.add("--step", &step_, "lengths are multiples of this",
              {.shows_default = true, .range = FlagRange{1, 1 << 20}});
    flags.add("--max-seq-len", &max_seq_len_, "the longest length looked at",
              {.shows_default = true, .range = FlagRange{1, 1 << 26}});
    flags.add("--max-probes", &max_probes_, "child processes per row",
              {.shows_default = true, .range = FlagRange{1, 100}});
    flags.add("--run-limit", &run_limit_,
              "a probe that would compute for longer only takes and touches the memory", shown);
    flags.add("--probe-patience", &probe_patience_, "then a probe counts as failed", shown);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared, {.list = "implementations and dtypes", .no_verify = ""});
  }

  std::string list() const override {
    return "implementations:\n" + listed(attention_implementations()) + kListedDtypes;
  }

  void check() override {
    run_limit_s_ = parse_seconds(run_limit_);
    probe_patience_s_ = parse_seconds(probe_patience_);
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const ChildProbeOptions child{.device_words = words_for_child(shared.device, run.device),
                                  .patience = probe_patience_,
                                  .interrupted = run.interrupted};
    options_ = {
        .row = row_options(run, shared),
        .probe = [child](const AttentionWorkload& workload,
                         ProbeMethod method) { return probe_in_child(workload, method, child); },
        .step = step_,
        .max_seq_len = max_seq_len_,
        .max_probes = max_probes_,
        .run_limit_s = run_limit_s_};
    options_.row.settings["probe_patience_s"] = probe_patience_s_;
    const std::string command = fmt::format(
        "ridgeline frontier{} --seed {} --step {} --max-seq-len {} --max-probes {} --run-limit {} "
        "--probe-patience {}",
        run.device_words, shared.seed, step_, max_seq_len_, max_probes_, run_limit_,
        probe_patience_);
    std::vector<StudyRow> rows;
    AttentionMatrix matrix = matrix_;
    matrix.seq_lens = {step_};
    matrix.backward = {backward_algorithm({}, run.device.facts())};
    for (const AttentionWorkload& workload : expand_matrix(matrix)) {
      Record record = describe_frontier(workload, run.device, options_, run.blank);
      record.command = command;
      for (const std::string& word : problem_words(workload)) record.command += " " + word;
      rows.push_back({record, label_without_length(workload),
                      expected_frontier_s(workload, run.device, options_, record),
                      [this, &run, workload, record] {
                        return find_frontier(workload, run.device, options_, record);
                      }});
    }
    return rows;
  }

  Table planned(const StudyRun& run, const std::vector<StudyRow>& rows) override {
    Table table{
        .title = fmt::format("{} searches would run on {}, budget {}", rows.size(),
                             run.device.description(), to_string(run.device.ledger().budget())),
        .columns = {"row", "predicted longest sequence", "predicted peak"}};
    for (const StudyRow& row : rows) {
      const std::optional<Bytes>& peak = row.described.memory.predicted_peak;
      table.rows.push_back(
          {row.label, predicted_longest(row.described), peak ? to_string(*peak) : std::string()});
    }
    return table;
  }

  bool set_up(const StudySetup& setup) override {
    run_limit_ = setup.time_budget;
    return setup.attempt == 0;
  }

 private:
  // Marks a length at the end of the search range: memory would hold more.
  std::string predicted_longest(const Record& record) const {
    if (record.status != Status::ok) return std::string(status_csv_word(record.status));
    const int64_t longest = (*record.metrics)["predicted_seq_len"].get<int64_t>();
    return fmt::format("{}{}", longest,
                       longest + step_ > max_seq_len_ ? ", all of --max-seq-len" : "");
  }

  AttentionMatrix matrix_ = {
      .batch_sizes = {1, 8}, .head_dims = {64}, .implementations = {"naive", "flash"}};
  int64_t step_ = FrontierOptions().step;
  int64_t max_seq_len_ = FrontierOptions().max_seq_len;
  int max_probes_ = FrontierOptions().max_probes;
  std::string run_limit_ = "20s";
  std::string probe_patience_ = "5min";
  double run_limit_s_ = 0, probe_patience_s_ = 0;
  FrontierOptions options_;
};

}  // namespace

StudyInfo frontier_study() {
  return {.name = "frontier",
          .summary = "the longest sequence of attention that fits in memory",
          .examples =
              "Examples:\n"
              "  ridgeline frontier --memory-budget 2GiB --batch-size 1,8,32\n"
              "  ridgeline frontier --dry-run --memory-budget 24GB --dtype bf16   what a 24 GB "
              "card holds",
          .make = make_study<Frontier>,
          .csv = frontier_csv,
          .title = "Out-of-memory frontier",
          .table = frontier_summary,
          .notes = frontier_notes,
          .in_reports = "How long a sequence fits",
          .sections = {frontier_section},
          .checks_values = false,
          .turn = 5,
          .budget = Bytes{256 << 20}};
}

}  // namespace ridgeline

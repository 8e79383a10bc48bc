// The memory study: where the memory of attention, or of a whole model, goes. Accounts are printed
// as text; timelines are rows of a sweep.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "runtime/scratch.h"
#include "studies/attention/row.h"
#include "studies/memory/attention.h"
#include "studies/memory/cache_account.h"
#include "studies/memory/model_account.h"
#include "studies/memory/timeline_row.h"
#include "studies/memory/timeline_tables.h"
#include "studies/profile/tables.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

constexpr const char* kModelSize = "--model-size";
constexpr const char* kModelConfig = "--model-config";
constexpr const char* kTimeline = "--timeline";
constexpr size_t kMostInFull = 4;  // rows whose tables and files are printed

void print_files(const std::vector<Record>& records) {
  for (const Record& record : records) {
    if (!record.metrics) continue;
    if (const std::string path = record.metrics->value("timeline_csv", ""); !path.empty())
      print("Events:  {}\n", path);
    if (const std::string path = record.metrics->value("snapshot", ""); !path.empty())
      print("Snapshot: {}   (open it in pytorch.org/memory_viz)\n", path);
  }
}

class Memory final : public Study {
 public:
  void declare(Flags& flags) override {
    add_model_axes(flags, &axes_);
    for (const char* name : {"--precision", "--optimizer", "--max-norm", "--loss-scale", "--d-ff",
                             "--layers", "--vocabulary", "--accumulate", "--checkpoint-blocks"})
      flags.at(name).rules.needs = {kModelSize};
    flags.at("--context-length").rules.given = &gave_contexts_;
    flags.at("--scenario").rules.given = &gave_scenarios_;
    flags.at("--impl").rules.given = &gave_modes_;
    flags.at(kModelSize).help =
        "a whole model instead of attention: small, medium, large, xl, 2.7B, 10B";
    flags.add(kModelConfig, &caches_.configs,
              "a Gemma-3 that writes, with keys and values of its context: 270m, 1b, 4b, or a "
              "config.json",
              {.choices = names_of(gemma3_sizes()), .excludes = {kModelSize}});
    flags.add("--prompt-length", &caches_.prompt,
              "of --model-config: tokens of the context that are taken in at once",
              {.shows_default = true, .range = FlagRange{1, 1 << 24}, .needs = {kModelConfig}});
    Flag& batch_size = flags.at("--batch-size");
    batch_size.help = "independent sequences; of attention 8, of --model-config 1 unless given";
    batch_size.rules.given = &gave_batch_size_;
    flags.at("--heads").help = "heads per sequence (1), or of the model";
    flags.at("--d-model").help =
        "width of one head, as --head-dim, or of the model's residual stream";
    flags.add("--measure", &measure_, "of a model: also run one step, where it fits",
              {.needs = {kModelSize}});
    flags.add(kTimeline, &timeline_,
              "every allocation in its order, over the forward pass with all that it keeps for "
              "backward, and over a whole step: as CSV, in reports, and for PyTorch's memory_viz",
              {.excludes = {kModelConfig}});
    flags.add(
        "--snapshot", &snapshot_,
        "write the snapshot for memory_viz there, of one row (default: one per row beside the "
        "records)",
        {.needs = {kTimeline}});
    add_output_flags(flags, &shared.output);
    for (const char* name : {"--output", "--json", "--impl", "--scenario"}) {
      Flag& flag = flags.at(name);
      flag.help = "of a model or a timeline: " + flag.help;
    }
    flags.at("--scenario").help +=
        "; of a timeline forward, which then keeps what backward needs, and the largest unless "
        "given";
    flags.add("--seq-len", &config_.seq_len, "sequence length of attention",
              {.shows_default = true,
               .range = FlagRange{1, int64_t{1} << 40},
               .excludes = {kModelSize, kModelConfig}});
    add_causal(flags, &config_.causal).rules.excludes = {kModelSize, kModelConfig};
    flags.add("--head-dim", &config_.head_dim, "width of one head of attention",
              {.shows_default = true,
               .range = FlagRange{1, 1 << 24},
               .excludes = {kModelSize, kModelConfig, "--d-model"}});
    flags.add("--dtype", &dtype_,
              "of attention: fp32, tf32, bf16 or fp16; of --model-config bf16 unless given",
              {.shows_default = true,
               .choices = {"fp32", "tf32", "bf16", "fp16"},
               .excludes = {kModelSize},
               .given = &gave_dtype_});
    add_device_flags(flags, &shared.device);
    add_results_dir(flags, &shared.results_dir, "where the text goes");
    flags.add("--dry-run", &shared.dry_run, "predict only, run nothing, write no file");
  }

  void check() override {
    if (gave_contexts_ && axes_.sizes.empty() && caches_.configs.empty())
      throw Error(ErrorKind::usage,
                  fmt::format("--context-length needs {} or {}", kModelSize, kModelConfig),
                  "attention has --seq-len");
    if (timeline_) return check_timelines();
    if (!caches_.configs.empty()) return check_caches();
    const std::pair<const char*, bool> given[] = {{"--output", !shared.output.table.empty()},
                                                  {"--json", !shared.output.json.empty()},
                                                  {"--impl", gave_modes_},
                                                  {"--scenario", gave_scenarios_}};
    for (const auto& [name, is_given] : given)
      if (is_given && axes_.sizes.empty())
        throw Error(ErrorKind::usage,
                    fmt::format("{} needs {}, {} or {}", name, kModelSize, kModelConfig, kTimeline),
                    "the account of attention is a text of one size");
  }

  std::optional<int> run_instead(StudyRun& run) override {
    if (timeline_) return std::nullopt;
    if (!cached_.empty()) {
      const auto outputs = check_output(shared.output);
      account_caches(run, cached_, shared);
      return 0;
    }
    if (axes_.sizes.empty()) {
      account_attention_memory(run);
      return 0;
    }
    const auto outputs = check_output(shared.output);
    account_models(run, axes_, shared, measure_);
    return 0;
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    study_.emplace(run.device, timeline_options(run));
    files_.clear();
    std::vector<StudyRow> rows;
    for (const StepWorkload& workload : workloads_) {
      const std::string name = file_name(workload);
      const std::filesystem::path snapshot = run.folder / fmt::format("memory_{}.pickle", name);
      const TimelineFiles& files = files_.emplace_back(
          TimelineFiles{run.folder / fmt::format("memory_timeline_{}.csv", name),
                        snapshot_.empty() ? snapshot : std::filesystem::path(snapshot_)});
      Record record = study_->describe(workload, run.blank);
      record.command =
          fmt::format("ridgeline memory --timeline{}{}{}", measure_ ? " --measure" : "",
                      run.device_words, to_command(timeline_axes(), workload));
      rows.push_back(
          {record, label(workload), study_->expected_s(workload, record),
           [this, workload, files, record] { return study_->run(workload, files, record); }});
    }
    return rows;
  }

  Table planned(const StudyRun& run, const std::vector<StudyRow>& rows) override {
    return Study::planned(run, with_predicted_peaks(rows, workloads_, *study_));
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    constexpr size_t kTop = 8;
    print("{} on {}\n\n{}\n", run.info.title, run.device.description(),
          to_terminal(timeline_peaks(records), run.file("csv")));
    for (const Record& record : records) {
      const std::vector<std::string> answers = timeline_answers(record);
      if (answers.empty()) continue;
      print("{}\n", profile_name(record));
      print_notes(answers);
      print("\n");
      if (records.size() > kMostInFull) continue;
      for (const Table& table : {held_at_peak(record, kTop), largest_tensors_of(record, kTop)})
        print("{}\n", to_terminal(table, run.file("jsonl")));
    }
    print_notes(timeline_notes(records));
  }

  void show_last(StudyRun& run, const std::vector<StudyRow>&,
                 const std::vector<Record>& records) override {
    if (timeline_ && records.size() > kMostInFull)
      print("Events and snapshots (for pytorch.org/memory_viz) of each row: {}\n",
            run.folder.string());
    else
      print_files(records);
  }

  std::vector<WrittenFile> also_written() const override {
    std::vector<WrittenFile> written;
    for (const TimelineFiles& files : files_) {
      written.push_back({"the events", files.events});
      written.push_back({snapshot_.empty() ? "the snapshot" : "--snapshot", files.snapshot});
    }
    return written;
  }

  // Sizes that run in about a second.
  bool set_up(const StudySetup& setup) override {
    timeline_ = measure_ = true;
    axes_.sizes = {"small"};
    const bool on_gpu = setup.device.facts().is_gpu();
    if (on_gpu && setup.attempt == 0) {
      axes_.precisions = {"fp32", "mixed"};
      axes_.context_lengths = {256, 512};
      return true;
    }
    axes_.batch_size = 1;
    axes_.context_lengths = {128, 256};
    axes_.overrides = {.d_model = 256, .d_ff = 1024, .layers = 4, .heads = 4, .vocabulary = 4096};
    if (setup.attempt > 1) {
      axes_.context_lengths = {32};
      axes_.overrides = {.d_model = 64, .d_ff = 256, .layers = 2, .heads = 2, .vocabulary = 256};
    }
    return setup.attempt <= 2;
  }

  bool fits(Device& device) const override {
    return all_fit(workloads_of(timeline_axes()), TimelineStudy(device, {}), device);
  }

 private:
  // Timelines have the same axes as `profile`.
  StepAxes timeline_axes() const {
    const bool of_attention = axes_.sizes.empty();
    StepAxes axes{.model = axes_,
                  .attention = of_attention,
                  .gave_batch_size = gave_batch_size_,
                  .gave_scenarios = true,
                  .seq_lens = {config_.seq_len},
                  .head_dims = {config_.head_dim},
                  .dtypes = {dtype_},
                  .causal = config_.causal};
    if (of_attention) axes.model.sizes = {"small"};  // ignored for attention
    if (!gave_scenarios_)
      axes.model.scenarios = {"forward", of_attention ? "fwd-bwd" : "full-step"};
    return axes;
  }

  void check_timelines() {
    workloads_ = workloads_of(timeline_axes());
    optimizer_ = axes_.sizes.empty() ? AdamWOptions{} : optimizer_of(axes_);
    if (!snapshot_.empty())
      snapshot_file_ = check_file_of_one_row(workloads_, "--snapshot", snapshot_);
  }

  void check_caches() {
    if (gave_scenarios_ || axes_.overrides.any())
      throw Error(ErrorKind::usage,
                  fmt::format("{} is about text that is written: it has no scenarios, and all of "
                              "its sizes",
                              kModelConfig),
                  "leave --scenario, --heads and --d-model out");
    if (gave_contexts_) caches_.contexts = axes_.context_lengths;
    if (gave_batch_size_) caches_.batch_size = axes_.batch_size;
    if (gave_dtype_) caches_.dtype = dtype_;
    if (gave_modes_) caches_.modes = axes_.modes;
    cached_ = expand_caches(caches_);
  }

  TimelineOptions timeline_options(const StudyRun& run) const {
    TimelineOptions options{.row = row_options(run, shared),
                            .optimizer = optimizer_,
                            .measure = measure_ || axes_.sizes.empty(),
                            .keep_on_host = host_cache_budget(run.device)};
    if (!axes_.sizes.empty()) options.row.settings["optimizer"] = axes_.optimizer;
    if (axes_.max_norm > 0) options.row.settings["max_norm"] = axes_.max_norm;
    return options;
  }

  void account_attention_memory(StudyRun& run) {
    // Flags of models that have another meaning or default for attention.
    if (gave_batch_size_) config_.batch_size = axes_.batch_size;
    if (axes_.overrides.heads > 0) config_.heads = axes_.overrides.heads;
    if (axes_.overrides.d_model > 0) config_.head_dim = axes_.overrides.d_model;
    config_.dtype = parse_float_dtype(dtype_);
    const MemoryFacts measured = shared.dry_run ? MemoryFacts() : measure_once(run);
    const std::string analysis = memory_analysis(config_, measured, scratch_of(run.device));
    print("{}", analysis);
    if (shared.dry_run) return;
    const std::filesystem::path path =
        run.results_dir / "attention" /
        fmt::format("memory_analysis_d{}_s{}.txt", config_.head_dim, config_.seq_len);
    write_file_atomically(path, analysis);
    print("\nWritten to {}.\n", path.string());
  }

  // Runs forward and backward once; returns no facts if that does not fit the budget.
  MemoryFacts measure_once(StudyRun& run) const {
    const AttentionWorkload workload{config_, "naive"};
    AttentionRunner runner(run.device, {.row = {.protocol = {.warmups = 0, .iterations = 1},
                                                .verify = false,
                                                .interrupted = run.interrupted}});
    const Record described = runner.describe(workload, {});
    const Bytes predicted = *described.memory.predicted_peak, budget = run.device.ledger().budget();
    if (predicted > budget) {
      print("The predicted peak of {} is above the budget of {}: predicted only.\n\n",
            to_string(predicted), to_string(budget));
      return {};
    }
    const std::optional<Record> record = runner.run(workload, described);
    if (!record) throw Interrupted();
    return record->memory;
  }

  ModelAxes axes_ = {.sizes = {}, .context_lengths = {512}, .scenarios = {"full-step"}};
  bool gave_batch_size_ = false, gave_scenarios_ = false, gave_modes_ = false;
  bool gave_contexts_ = false, gave_dtype_ = false;
  CacheAxes caches_;
  std::vector<CacheWorkload> cached_;
  AttentionConfig config_{.batch_size = 8, .seq_len = 8192, .head_dim = 16};
  std::string dtype_ = "fp32";
  bool measure_ = false;  // runs a step of every row that fits
  bool timeline_ = false;
  std::string snapshot_;          // empty: one per row
  FileDescriptor snapshot_file_;  // a pipe stays open until it is written
  AdamWOptions optimizer_;
  std::vector<StepWorkload> workloads_;
  std::vector<TimelineFiles> files_;
  std::optional<TimelineStudy> study_;
};

}  // namespace

StudyInfo memory_study() {
  return {.name = "memory",
          .summary = "where the memory of attention, or of a whole model, goes, tensor by tensor",
          .examples =
              "Examples:\n"
              "  ridgeline memory --batch-size 8 --seq-len 8192 --d-model 16\n"
              "  ridgeline memory --model-size 2.7B --context-length 512 --precision mixed\n"
              "  ridgeline memory --model-size xl --memory-budget 24GiB --scenario "
              "forward,full-step\n"
              "  ridgeline memory --model-config 270m,1b --batch-size 16 --memory-budget 24GiB\n"
              "  ridgeline memory --timeline --model-size 2.7B --context-length 128,256,512,1024 "
              "--precision fp32,mixed",
          .make = make_study<Memory>,
          .csv = timeline_csv,
          .title = "Memory over a step",
          .in_reports = "Memory over a step",
          .sections = {timeline_section},
          .checks_values = false,
          .turn = 9};
}

}  // namespace ridgeline

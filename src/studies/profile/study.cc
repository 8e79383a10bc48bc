// The profile study: which kernels take the time of a step, in which phase, and why.
#include <fmt/format.h>

#include <algorithm>

#include "base/file_io.h"
#include "base/print.h"
#include "jit/cuda_libraries.h"
#include "studies/peers/peers.h"
#include "studies/profile/row.h"
#include "studies/profile/tables.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class ProfileCommand final : public Study {
 public:
  void declare(Flags& flags) override {
    add_step_axes(flags, &axes_);
    flags.add("--schedule", &schedule_,
              "steps that run first, steps that are traced and dropped, steps that are kept",
              {.shows_default = true});
    flags.add("--by", &by_,
              "print one table: by scope, kernel, category or phase (default: "
              "phase, category and top kernels)",
              {.choices = {"scope", "kernel", "category", "phase"}, .only_choices = true});
    flags.add("--top", &top_, "rows of a table that are printed; the CSV has up to 100",
              {.shows_default = true, .range = FlagRange{1, 100}});
    flags.add("--trace", &trace_,
              "write the trace for Chrome and Perfetto there, of one row; compressed if it ends in "
              ".gz (default: one per row beside the records)",
              {.excludes = {"--resume", "--runs"}});
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "sizes, scenarios, modes and precisions", .no_verify = ""});
  }

  std::string list() const override {
    constexpr int kNameWidth = 10;
    std::string text = "sizes:\n ";
    for (const TransformerConfig& config : transformer_sizes()) text += " " + config.name;
    return text + "; or --attention\nscenarios:\n" + listed(kModelScenarios, kNameWidth) +
           "modes:\n" + listed(modes(), kNameWidth) + kModelPeers.list() + "attention of " +
           kAttentionPeers.list() + "precisions:\n" + listed(kModelPrecisions, kNameWidth) +
           "tables:\n  phase, category, scope, kernel\n";
  }

  void check() override {
    parsed_schedule_ = parse_profile_schedule(schedule_);
    workloads_ = workloads_of(axes_);
    optimizer_ = axes_.attention ? AdamWOptions{} : optimizer_of(axes_.model);
    if (!trace_.empty()) trace_file_ = check_file_of_one_row(workloads_, "--trace", trace_);
  }

  // CUPTI must be open before contexts and modules are created.
  void before_device() override {
    const bool may_be_gpu = shared.device.device != "cpu" && cuda_library("cuda");
    if (is_part_)
      why_not_ = "`ridgeline study` had opened the device before; `ridgeline profile` traces it";
    else if (may_be_gpu && !tracer_)
      tracer_ = open_gpu_activity(why_not_);
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    ceilings_ = stored_ceilings(run.results_dir, run.device, run.blank.machine);
    study_.emplace(run.device, options(run));
    peers_.emplace(run.device, run.interrupted);
    traces_.clear();
    std::vector<StudyRow> rows;
    for (size_t i = 0; i < workloads_.size(); ++i) {
      const StepWorkload& workload = workloads_[i];
      traces_.push_back(trace_.empty()
                            ? run.folder / fmt::format("trace_{}.json.gz", file_name(workload))
                            : std::filesystem::path(trace_));
      Record record = study_->describe(workload, run.blank);
      record.command = fmt::format(
          "ridgeline profile{} --seed {} --schedule {}{}{}", run.device_words, shared.seed,
          schedule_, axes_.attention ? " --attention" : "", to_command(axes_, workload));
      rows.push_back({record, label(workload), study_->expected_s(workload, record),
                      [this, i, record] { return run_row(i, record); }});
    }
    return rows;
  }

  // Builds the graphs, which rows() does not do.
  Table planned(const StudyRun& run, const std::vector<StudyRow>& rows) override {
    return Study::planned(run, with_predicted_peaks(rows, workloads_, *study_));
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    print("{} on {}\n", run.info.title, run.device.description());
    for (const Record& record : records) {
      if (!record.metrics || record.status != Status::ok) continue;
      print("\n{}\n", profile_name(record));
      const Words all = {"phase", "category", "kernel"};
      for (const std::string& by : by_.empty() ? all : Words{by_})
        if (const Table table = profile_folds(record, by, static_cast<size_t>(top_));
            !table.rows.empty())
          print("\n{}", to_terminal(table, run.file("csv")));
      print("\n");
      print_notes(profile_answers(record));
    }
    print("\n{}\n", to_terminal(profile_modes(records)));
    print_notes(profile_notes(records));
  }

  void show_last(StudyRun&, const std::vector<StudyRow>&,
                 const std::vector<Record>& records) override {
    for (const Record& record : records)
      if (record.metrics && record.metrics->contains("trace"))
        print("Trace:   {}   (open it in ui.perfetto.dev or chrome://tracing)\n",
              record.metrics->value("trace", ""));
  }

  std::vector<WrittenFile> also_written() const override {
    std::vector<WrittenFile> files;
    for (const std::filesystem::path& path : traces_)
      files.push_back({trace_.empty() ? "the trace" : "--trace", path});
    return files;
  }

  // Sizes that run in a few seconds.
  bool set_up(const StudySetup& setup) override {
    is_part_ = true;
    schedule_ = "wait=1,warmup=1,active=3";
    const bool on_gpu = setup.device.facts().is_gpu();
    if (on_gpu && setup.attempt == 0) {
      axes_.model.precisions = {"mixed"};
      axes_.model.context_lengths = {256};
      return true;
    }
    axes_.model.batch_size = 1;
    axes_.model.overrides = {
        .d_model = 256, .d_ff = 1024, .layers = 4, .heads = 4, .vocabulary = 4096};
    if (setup.attempt > 1) {
      axes_.model.context_lengths = {32};
      axes_.model.overrides = {
          .d_model = 64, .d_ff = 256, .layers = 2, .heads = 2, .vocabulary = 256};
    }
    return setup.attempt <= 2;
  }

  bool fits(Device& device) const override {
    return all_fit(workloads_of(axes_), ProfileStudy(device, {}), device);
  }

 private:
  static bool is_ours(const StepWorkload& workload) { return workload.peer.empty(); }

  std::optional<Record> run_row(size_t number, const Record& described) {
    const StepWorkload& workload = workloads_[number];
    if (!is_ours(workload))
      return peers_->run_profile(workload,
                                 {.schedule = parsed_schedule_,
                                  .seed = shared.seed,
                                  .max_norm = optimizer_.max_norm,
                                  .trace = traces_[number]},
                                 described);
    const auto following = std::span(workloads_).subspan(number + 1);
    const ProfileRowOptions how{.trace = traces_[number],
                                .is_last = std::ranges::none_of(following, is_ours)};
    return study_->run(workload, how, described);
  }

  ProfileStudyOptions options(const StudyRun& run) const {
    ProfileStudyOptions options{.row = row_options(run, shared),
                                .schedule = parsed_schedule_,
                                .optimizer = optimizer_,
                                .tracer = tracer_.get(),
                                .why_not = why_not_,
                                .why_not_counters = why_not_counters(),
                                .roofline = ceilings_ ? &*ceilings_ : nullptr,
                                .keep_on_host = host_cache_budget(run.device)};
    if (!axes_.attention) options.row.settings["optimizer"] = axes_.model.optimizer;
    if (axes_.model.max_norm > 0) options.row.settings["max_norm"] = axes_.model.max_norm;
    return options;
  }

  // Sampling counters stops CUPTI's activity records, so that kernels of later rows would be
  // missed. If CUPTI could not be opened for tracing, another profiler may be active.
  std::string why_not_counters() const {
    if (!tracer_) return is_part_ ? "" : why_not_;
    if (std::ranges::count_if(workloads_, is_ours) <= 1) return {};
    return "CUPTI traces the rows that follow, and cannot sample counters beside that; profile one "
           "row by itself";
  }

  StepAxes axes_ = {.takes_peers = true};
  std::string schedule_ = to_string(ProfileSchedule{});
  std::string by_, trace_;  // empty: several tables; one file per row
  int top_ = 10;
  bool is_part_ = false;  // of `ridgeline study`
  std::string why_not_;
  std::unique_ptr<ActivityTracer> tracer_;
  ProfileSchedule parsed_schedule_;
  AdamWOptions optimizer_;
  FileDescriptor trace_file_;  // a pipe stays open until it is written
  std::vector<StepWorkload> workloads_;
  std::vector<std::filesystem::path> traces_;
  std::optional<Roofline> ceilings_;
  std::optional<ProfileStudy> study_;
  std::optional<Peers> peers_;
};

}  // namespace

StudyInfo profile_study() {
  return {
      .name = "profile",
      .summary = "which kernels take the time of a step, in which phase, and whether it waits",
      .examples =
          "Examples:\n"
          "  ridgeline profile --impl vanilla,fused,flash,compiled    the ladder, side by side\n"
          "  ridgeline profile --model-size 2.7B --context-length 512 --precision mixed --impl "
          "compiled\n"
          "  ridgeline profile --impl torch.eager,torch.compile,vanilla,compiled    beside "
          "PyTorch\n"
          "  ridgeline profile --attention --seq-len 1024 --head-dim 64 --by scope",
      .make = make_study<ProfileCommand>,
      .csv = profile_csv,
      .title = "Profile",
      .in_reports = "Where the time goes",
      .sections = {profile_section, step_section},
      .checks_values = false,
      .turn = 7};
}

}  // namespace ridgeline

// The model study: whole transformers, vanilla against compiled, from forward to a training step.
#include "studies/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "studies/model/flags.h"
#include "studies/model/row.h"
#include "studies/model/tables.h"

namespace ridgeline {
namespace {

bool has_saved(const Record& record, Scenario scenario, const char* what) {
  const Json metrics = record.metrics.value_or(Json::object());
  const Json* of = metrics.find_key(info(scenario).series);
  return of && of->contains(what);
}

class Model final : public Study {
 public:
  Model() { shared.protocol = {.warmups = 5, .iterations = 10}; }

  void declare(Flags& flags) override {
    add_model_axes(flags, &axes_);
    add_protocol_flags(flags, &shared.protocol);
    flags.at("--num-iterations").help = "samples per scenario";
    flags.at("--time-budget").help = time_budget_help(
        "seconds per row, shared by its scenarios, instead of a fixed number of samples");
    flags.add("--explain", &explain_,
              "print the plans of compiled models: kernels and why, bytes, FLOPs, memory, "
              "refusals; with --dry-run, without running them");
    flags.add("--weights", &weights_, "begin with the parameters in this safetensors file");
    flags.add("--save-weights", &save_weights_,
              "write the parameters there after the last full step; of one row",
              {.excludes = {"--resume"}});  // --resume may leave no row to run
    flags.add("--save-logits", &save_logits_,
              "write the tokens and their logits there as safetensors, to hold another "
              "implementation against; of one row",
              {.excludes = {"--resume"}});
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "sizes, scenarios, modes and precisions",
                     .no_verify = "do not look at the first loss nor at each kernel, nor compare "
                                  "compiled with vanilla"});
  }

  std::string list() const override {
    constexpr int kNameWidth = 10;
    std::string text = "sizes:\n";
    for (const TransformerConfig& config : transformer_sizes())
      text += fmt::format(
          "  {:<8} {:>8.1f} M parameters: width {}, feed-forward {}, {} layers, {} heads\n",
          config.name, static_cast<double>(parameter_count(config)) / 1e6, config.d_model,
          config.d_ff, config.layers, config.heads);
    return text + "scenarios:\n" + listed(kModelScenarios, kNameWidth) + "modes:\n" +
           listed(modes(), kNameWidth) + "precisions:\n" + listed(kModelPrecisions, kNameWidth);
  }

  // Checks files of weights before the run; one file can hold one model.
  void check() override {
    workloads_ = workloads_of(axes_);
    if (!weights_.empty())
      for (const ModelWorkload& workload : workloads_)
        check_model_weights(weights_, workload.config);
    if (!save_weights_.empty()) {
      expect_full_step(axes_, "--save-weights");
      weights_file_ = check_one_row("weights", save_weights_);
    }
    if (!save_logits_.empty()) {
      const std::vector<Scenario> chosen = scenarios_of(axes_);
      if (!std::ranges::count(chosen, Scenario::forward))
        throw Error(ErrorKind::usage,
                    fmt::format("--save-logits is about forward, but --scenario {} has none",
                                fmt::join(axes_.scenarios, ",")),
                    "add --scenario forward");
      logits_file_ = check_one_row("logits", save_logits_);
    }
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    study_.emplace(run.device, options(run));
    return rows_of(workloads_, *study_, run, [&](const ModelWorkload& workload) {
      return fmt::format("ridgeline model{}{}{}{}", shared_words(run, shared),
                         to_command(axes_, workload.precision),
                         weights_.empty() ? "" : " --weights " + weights_, to_command(workload));
    });
  }

  // Traces the models, which rows() does not do.
  Table planned(const StudyRun& run, const std::vector<StudyRow>& rows) override {
    std::vector<StudyRow> traced = rows;
    for (size_t i = 0; i < rows.size(); ++i) {
      Record& record = traced[i].described;
      record.memory.predicted_peak = study_->predicted_peak(workloads_[i]);
      record.cost.emplace().forward.flops =
          static_cast<int64_t>(model_forward_flops(workloads_[i].config));
    }
    return Study::planned(run, traced);
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const auto parameters = row.described.workload["num_params"].get<double>();
    const auto flops = static_cast<double>(row.described.cost->forward.flops);
    return {{"Mparams", fmt::format("{:.2f}", parameters / 1e6)},
            {"GFLOP forward", fmt::format("{:.3f}", flops / 1e9)}};
  }

  void show(StudyRun& run, const std::vector<StudyRow>& rows,
            const std::vector<Record>& records) override {
    print("{} on {}\n\n{}\n", run.info.title, run.device.description(),
          to_terminal(model_summary(records), run.file("csv")));
    if (const std::string ladder = ladder_text(run, records); !ladder.empty())
      print("{}\n", ladder);
    if (const Table first = model_first_steps(records); !first.rows.empty())
      print("{}\n", to_terminal(first));
    print_notes(model_notes(records));
    point_at_smallest_oom(run, rows, records);
    explain(rows, records);
  }

  void show_last(StudyRun&, const std::vector<StudyRow>& rows,
                 const std::vector<Record>& records) override {
    if (records.empty()) return explain(rows, records);
    if (!save_weights_.empty())
      print("Weights: {}\n", has_saved(records[0], Scenario::full_step, "saved_weights")
                                 ? save_weights_
                                 : kNotWritten);
    if (!save_logits_.empty())
      print("Logits: {}\n",
            has_saved(records[0], Scenario::forward, "saved_logits") ? save_logits_ : kNotWritten);
  }

  std::vector<WrittenFile> also_written() const override {
    return {{"--save-weights", save_weights_}, {"--save-logits", save_logits_}};
  }

  // From the largest size down to one that fits in a few hundred MiB.
  bool set_up(const StudySetup& setup) override {
    const bool on_gpu = setup.device.facts().is_gpu();
    axes_.modes = {"vanilla", "fused", "flash", "compiled"};  // the report shows the whole ladder
    if (on_gpu)
      axes_.precisions = {"mixed"};
    else
      shared.protocol.warmups = 1;
    axes_.context_lengths = {on_gpu && setup.attempt == 0 ? 512 : 128};
    if (!on_gpu || setup.attempt > 0) axes_.batch_size = 1;
    if (setup.attempt == 2)
      axes_.overrides = {.d_model = 384, .d_ff = 1536, .layers = 6, .heads = 6};
    if (setup.attempt == 3) {
      axes_.context_lengths = {64};
      axes_.overrides = {.d_model = 192, .d_ff = 768, .layers = 3, .heads = 3};
    }
    return setup.attempt <= 3;
  }

  bool fits(Device& device) const override {
    return all_fit(workloads_of(axes_), ModelStudy(device, {.scenarios = scenarios_of(axes_)}),
                   device);
  }

 private:
  static constexpr const char* kNotWritten = "not written, see above";

  FileDescriptor check_one_row(const char* what, const std::string& path) const {
    if (workloads_.size() > 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("{} rows would write their {} to '{}', from '{}' to '{}'", workloads_.size(),
                      what, path, label(workloads_.front()), label(workloads_.back())),
          "name one --model-size, --context-length, --precision and --impl");
    return check_writable(path);
  }

  ModelStudyOptions options(const StudyRun& run) const {
    ModelStudyOptions options{.row = row_options(run, shared),
                              .scenarios = scenarios_of(axes_),
                              .optimizer = optimizer_of(axes_),
                              .weights = weights_,
                              .save_weights = save_weights_,
                              .save_logits = save_logits_,
                              .keep_on_host = host_cache_budget(run.device)};
    Json& settings = options.row.settings;
    settings["optimizer"] = axes_.optimizer;
    if (axes_.max_norm > 0) settings["max_norm"] = axes_.max_norm;
    if (!weights_.empty()) settings["weights"] = weights_;
    return options;
  }

  void explain(const std::vector<StudyRow>& rows, const std::vector<Record>& records) const {
    for (size_t i = 0; explain_ && i < workloads_.size(); ++i) {
      if (!info(workloads_[i].mode).fuse) continue;
      const Record* measured = nullptr;
      for (const Record& record : records)
        if (workload_key(record) == workload_key(rows[i].described)) measured = &record;
      print("\n{}", study_->explain(workloads_[i], measured));
    }
  }

  // Prints the command that explains the smallest row that did not fit.
  void point_at_smallest_oom(const StudyRun& run, const std::vector<StudyRow>& rows,
                             const std::vector<Record>& records) const {
    const Record* smallest = nullptr;
    for (const Record& record : records)
      if (record.status == Status::oom && record.memory.predicted_peak &&
          (!smallest || *record.memory.predicted_peak < *smallest->memory.predicted_peak))
        smallest = &record;
    if (!smallest) return;
    for (size_t i = 0; i < workloads_.size(); ++i)
      if (workload_key(*smallest) == workload_key(rows[i].described))
        return print(
            "  - where the memory of the smallest that does not fit would go: ridgeline "
            "memory{}{}{}\n",
            run.device_words, to_command(axes_, workloads_[i].precision),
            to_command(workloads_[i]));
  }

  ModelAxes axes_;
  bool explain_ = false;
  std::string weights_, save_weights_, save_logits_;  // files; empty: none
  FileDescriptor weights_file_, logits_file_;         // a pipe stays open until it is written
  std::vector<ModelWorkload> workloads_;
  std::optional<ModelStudy> study_;
};

}  // namespace

StudyInfo model_study() {
  return {.name = "model",
          .summary = "whole transformers: vanilla against compiled, forward to full training step",
          .examples =
              "Examples:\n"
              "  ridgeline model --context-length 128                small, vanilla and compiled\n"
              "  ridgeline model --model-size small large 2.7B --context-length 512 --precision "
              "mixed\n"
              "  ridgeline model --context-length 128 --impl compiled --dry-run --explain",
          .make = make_study<Model>,
          .csv = model_csv,
          .title = "Transformer study",
          .in_reports = "Whole transformers",
          .sections = {model_section},
          .takes_turns = true,
          .turn = 4};
}

}  // namespace ridgeline

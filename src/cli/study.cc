// ridgeline study: all studies at a size that fits this machine, in a few minutes, and one report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/print.h"
#include "cli/attention_sweep.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/write_report.h"
#include "measure/history.h"
#include "measure/read_results.h"
#include "studies/model_study.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct WholeStudyFlags {
  DeviceFlags device;
  std::string results_dir = "results";
  std::string time_budget = "1s";
  std::string save_baseline;
  std::string only;  // a study; empty: all
  int runs = 1;
  bool resume = false;
  bool dry_run = false;
};

constexpr const char* kAttention = "attention";

// A study of its own command. Ceilings come first, so that the others know their share of them.
struct StudyStep {
  const char* name;
  Run (*add)(CLI::App& app);
  Words timed;  // flags that take the time budget
  // What it is told beyond the shared flags: the first that fits, or else the last.
  std::vector<Words> cpu, cuda;
  bool (*fits)(const Words& own, Device& device) = [](const Words&, Device&) { return true; };
  std::optional<Bytes> budget = {};  // for a study that would fill whatever memory it is given
};

bool model_fits(const Words& own, Device& device) {
  ModelAxes axes;
  CLI::App app;
  app.allow_extras();  // such as steps, which take no memory
  add_model_axes(app, axes);
  app.parse(Words(own.rbegin(), own.rend()));
  const ModelStudy study(device, {.scenarios = scenarios_of(axes)});
  return std::ranges::all_of(workloads_of(axes), [&](const ModelWorkload& workload) {
    return study.predicted_peak(workload) <= device.ledger().budget();
  });
}

// From the size that the study is about down to what a few hundred MiB hold.
std::vector<Words> models(const Words& first, const Words& shared) {
  std::vector<Words> ladder = {
      first,
      {"--context-length", "128", "--batch-size", "1"},
      {"--context-length", "128", "--batch-size", "1", "--layers", "6", "--d-model", "384",
       "--d-ff", "1536", "--heads", "6"},
      {"--context-length", "64", "--batch-size", "1", "--layers", "3", "--d-model", "192", "--d-ff",
       "768", "--heads", "3"},
  };
  for (Words& words : ladder) words.insert(words.end(), shared.begin(), shared.end());
  return ladder;
}

const std::vector<StudyStep>& steps_before_attention() {
  static const std::vector<StudyStep> kSteps = {
      {.name = "roofline",
       .add = add_roofline_command,
       .timed = {"--time-budget", "--settle-time"},
       .cpu = {{"--no-plot", "--dtype", "fp32,bf16", "--size", "1024"}},
       .cuda = {{"--no-plot"}}},
      {.name = "gemm",
       .add = add_gemm_command,
       .timed = {"--time-budget"},
       .cpu = {{"--size", "256,512"}},
       .cuda = {{"--size", "1024,4096"}}},
      {.name = "kernel",
       .add = add_kernel_command,
       .timed = {"--time-budget"},
       .cpu = {{"--dtype", "bf16", "--mode", "hot", "--num-warmup", "5"}},
       .cuda = {{"--dtype", "bf16", "--num-warmup", "20"}}},
      {.name = "model",
       .add = add_model_command,
       .timed = {"--time-budget"},
       .cpu = models({"--context-length", "128", "--batch-size", "1"}, {"--warmup-steps", "1"}),
       .cuda = models({"--context-length", "512"}, {"--precision", "mixed"}),
       .fits = model_fits},
      {.name = "frontier",
       .add = add_frontier_command,
       .timed = {"--run-limit"},
       .cpu = {{}},
       .cuda = {{}},
       .budget = Bytes{256 << 20}},
  };
  return kSteps;
}

// Narrow heads reach the length at which naive attention no longer fits most machines.
std::vector<AttentionWorkload> attention_workloads() {
  const std::vector<AttentionMatrix> matrices = {
      {.head_dims = {16}, .seq_lens = {256, 1024, 4096, 16384}},
      {.head_dims = {64}, .seq_lens = {256, 1024, 4096}},
  };
  std::vector<AttentionWorkload> workloads;
  for (const AttentionMatrix& matrix : matrices)
    for (AttentionWorkload& workload : expand_matrix(matrix))
      workloads.push_back(std::move(workload));
  return workloads;
}

class WholeStudy {
 public:
  explicit WholeStudy(const WholeStudyFlags& flags)
      : flags_(flags),
        directory_(fs::path(flags.results_dir) / "study"),
        time_budget_s_(parse_time_budget(flags.time_budget)),
        device_(open_device(flags.device)) {
    if (!flags.save_baseline.empty()) check_baseline_name(flags.save_baseline);
  }

  int run() {
    print("All studies on {}\nbudget for tensors {}\n", device_->description(),
          to_string(device_->ledger().budget()));
    for (const StudyStep& step : steps_before_attention()) {
      if (!is_asked_for(step.name)) continue;
      note(run_step(step));
      if (code_ == kInterruptedExit) return code_;
      results_.push_back(directory_ / step.name / fmt::format("{}.jsonl", step.name));
    }
    if (is_asked_for(kAttention)) note(flags_.dry_run ? show_attention() : run_attention_study());
    if (code_ == kInterruptedExit || flags_.dry_run) return code_;
    std::erase_if(results_, [](const fs::path& path) { return !fs::exists(path); });
    if (!flags_.save_baseline.empty()) save_baseline();
    if (!results_.empty())
      for (const fs::path& path :
           write_reports({.results = results_, .outputs = {directory_ / "report.html"}}))
        print("\nReport:  {}   (open it in a browser)\n", path.string());
    return code_;
  }

 private:
  // The first that did not go well decides, but for an interruption, which ends everything.
  void note(int code) { code_ = code_ == 0 || code == kInterruptedExit ? code : code_; }

  bool is_asked_for(std::string_view study) const {
    return flags_.only.empty() || flags_.only == study;
  }

  Words words_of(const StudyStep& step) const {
    Words words = {step.name, "--results-dir", directory_.string()};
    for (const std::string& flag : step.timed)
      words.insert(words.end(), {flag, flags_.time_budget});
    const Words own = fitting(step);
    words.insert(words.end(), own.begin(), own.end());
    DeviceFlags device = flags_.device;
    if (step.budget && *step.budget < device_->ledger().budget())
      device.memory_budget = fmt::to_string(step.budget->count);
    const Words of_device = to_words(device);
    words.insert(words.end(), of_device.begin(), of_device.end());
    if (flags_.runs > 1) words.insert(words.end(), {"--runs", fmt::to_string(flags_.runs)});
    if (flags_.resume) words.emplace_back("--resume");
    if (flags_.dry_run) words.emplace_back("--dry-run");
    return words;
  }

  Words fitting(const StudyStep& step) const {
    const std::vector<Words>& all = device_->facts().kind == "cuda" ? step.cuda : step.cpu;
    const auto found =
        std::ranges::find_if(all, [&](const Words& own) { return step.fits(own, *device_); });
    const std::string budget = to_string(device_->ledger().budget());
    if (found == all.end())
      print("\nNot even the smallest {} fits the budget of {}.\n", step.name, budget);
    else if (found != all.begin())
      print("\nA smaller {} than usual, so that it fits the budget of {}.\n", step.name, budget);
    return found == all.end() ? all.back() : *found;
  }

  // A study that cannot run here is told; the others go on.
  int run_step(const StudyStep& step) {
    Words words = words_of(step);
    ridgeline::print("\n== ridgeline {}\n", fmt::join(words, " "));
    std::fflush(stdout);
    const FreshArguments fresh({"--only", step.name});
    try {
      CLI::App app;
      const Run run = step.add(app);
      std::reverse(words.begin(), words.end());
      app.parse(words);
      return run();
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorKind::internal, fmt::format("study runs {} with flags that it has not: {}",
                                                   step.name, error.what()));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) throw;
      say("{} was left out: {}", step.name, error.what());
      return exit_code(error.kind());
    }
  }

  int show_attention() const {
    const std::vector<AttentionWorkload> workloads = attention_workloads();
    print("\n== {} rows of attention would run\n", workloads.size());
    for (const AttentionWorkload& workload : workloads) print("  {}\n", label(workload));
    return 0;
  }

  int run_attention_study() {
    print("\n== attention\n");
    const Protocol protocol{.warmups = 3, .time_budget_s = time_budget_s_};
    watch_for_interrupts();
    const FreshArguments fresh({"--only", kAttention});
    const SweepResult result = run_attention_sweep(
        attention_workloads(), *device_,
        {.study = {.protocol = protocol,
                   .try_beyond_budget = false,
                   .settings = settings_of(flags_.device, *device_),
                   .interrupted = interrupted},
         .directory = directory_,
         .resume = flags_.resume,
         .runs = flags_.runs,
         .command =
             "ridgeline attention" + to_command(flags_.device, *device_) + to_command(protocol)});
    results_.push_back(directory_ / "attention.jsonl");
    return exit_code(result);
  }

  void save_baseline() const {
    std::vector<Record> records;
    for (const fs::path& path : results_)
      for (Record& record : read_results(path).records) records.push_back(std::move(record));
    History history(History::file_in(flags_.results_dir), Database::Open::create);
    say("saved {} rows as baseline '{}' in {}", history.save(flags_.save_baseline, records).rows,
        flags_.save_baseline, History::file_in(flags_.results_dir).string());
  }

  const WholeStudyFlags& flags_;
  const fs::path directory_;
  const double time_budget_s_;
  const std::unique_ptr<Device> device_;
  std::vector<fs::path> results_;
  int code_ = 0;
};

}  // namespace

Run add_study_command(CLI::App& app) {
  auto flags = std::make_shared<WholeStudyFlags>();
  CLI::App* command = app.add_subcommand(
      "study", "all studies, at a size that fits this machine, and a report of them");
  add_device_flags(*command, flags->device);
  command->add_option("--time-budget", flags->time_budget, time_budget_help("seconds per row"))
      ->capture_default_str();
  command->add_option("--results-dir", flags->results_dir, "where records and tables go")
      ->capture_default_str();
  add_save_baseline(*command, flags->save_baseline);
  Words names = {kAttention};
  for (const StudyStep& step : steps_before_attention()) names.emplace_back(step.name);
  command->add_option("--only", flags->only, "one of the studies instead of all of them")
      ->check(CLI::IsMember(names));
  command->add_flag("--resume", flags->resume,
                    "run only the rows that the results files do not hold");
  add_runs(*command, flags->runs);
  command->add_flag("--dry-run", flags->dry_run, "show what would run, run nothing");
  command->footer(
      "Examples:\n"
      "  ridgeline study                                     a few minutes, then report.html\n"
      "  ridgeline study --time-budget 200ms --memory-budget 4GiB");
  return [flags] { return WholeStudy(*flags).run(); };
}

}  // namespace ridgeline

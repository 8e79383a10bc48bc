// ridgeline study: all studies at a size that fits this machine, in a few minutes, and one report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "cli/attention_sweep.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/sweep_group.h"
#include "cli/write_report.h"
#include "measure/history.h"
#include "measure/read_results.h"
#include "report/terminal/records_json.h"
#include "studies/model/row.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct WholeStudyFlags {
  DeviceFlags device;
  ProtocolFlags protocol{.warmups = 3, .time_budget = "1s"};
  CLI::Option* given_warmups = nullptr;  // what each study takes otherwise is its own
  std::string results_dir = "results";
  std::string output, json;  // a further report, all records as one array; empty: none
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
  Words timed;  // flags that take the time budget; of samples "--time-budget"
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
       .cpu = models({"--context-length", "128", "--batch-size", "1"}, {"--num-warmup", "1"}),
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
        protocol_(make_protocol(flags.protocol)),
        device_(open_device(flags.device)) {
    if (!flags.save_baseline.empty()) check_baseline_name(flags.save_baseline);
    if (!flags.output.empty()) held_.push_back(check_report_output(flags.output));
    if (!flags.json.empty()) held_.push_back(check_writable(flags.json));
  }

  int run() {
    print("All studies on {}\nbudget for tensors {}\n", device_->description(),
          to_string(device_->ledger().budget()));
    SweepGroup group;  // one progress line over everything; runs in fresh processes show their own
    if (!flags_.dry_run && flags_.runs == 1) {
      for (const StudyStep& step : steps_before_attention())
        if (is_asked_for(step.name)) group.expect([&] { start(step, words_of(step)); });
      if (is_asked_for(kAttention)) group.expect([&] { sweep_attention(); });
    }
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
    if (!results_.empty()) write_results();
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
    bool takes_samples = false;
    for (const std::string& flag : step.timed) {
      const bool of_samples = flag == "--time-budget";
      takes_samples = takes_samples || of_samples;
      if (of_samples && protocol_.time_budget_s <= 0)
        words.insert(words.end(), {"--num-iterations", fmt::to_string(protocol_.iterations)});
      else
        words.insert(words.end(), {flag, flags_.protocol.time_budget});
    }
    Words own = fitting(step).words;
    if (takes_samples && flags_.given_warmups->count() > 0) {
      if (const auto warmups = std::ranges::find(own, "--num-warmup"); warmups != own.end())
        own.erase(warmups, warmups + 2);
      own.insert(own.end(), {"--num-warmup", fmt::to_string(protocol_.warmups)});
    }
    words.insert(words.end(), own.begin(), own.end());
    DeviceFlags device = flags_.device;
    device.device = device_name();  // what "auto" came to is said once
    if (step.budget && *step.budget < device_->ledger().budget())
      device.memory_budget = fmt::format("{}B", step.budget->count);
    const Words of_device = to_words(device);
    words.insert(words.end(), of_device.begin(), of_device.end());
    if (flags_.runs > 1) words.insert(words.end(), {"--runs", fmt::to_string(flags_.runs)});
    if (flags_.resume) words.emplace_back("--resume");
    if (flags_.dry_run) words.emplace_back("--dry-run");
    return words;
  }

  std::string device_name() const {
    const DeviceFacts facts = device_->facts();
    return facts.ordinal > 0 ? fmt::format("{}:{}", facts.kind, facts.ordinal) : facts.kind;
  }

  struct Fitting {
    Words words;
    std::string said = {};  // where it is not the first choice
  };
  Fitting fitting(const StudyStep& step) const {
    const std::vector<Words>& all = device_->facts().is_gpu() ? step.cuda : step.cpu;
    const auto found =
        std::ranges::find_if(all, [&](const Words& own) { return step.fits(own, *device_); });
    const std::string budget = to_string(device_->ledger().budget());
    if (found == all.end())
      return {all.back(), fmt::format("\nNot even the smallest {} fits the budget of {}.\n",
                                      step.name, budget)};
    if (found == all.begin()) return {*found};
    return {*found, fmt::format("\nA smaller {} than usual, so that it fits the budget of {}.\n",
                                step.name, budget)};
  }

  static int start(const StudyStep& step, Words words) {
    try {
      CLI::App app;
      const Run run = step.add(app);
      std::reverse(words.begin(), words.end());
      app.parse(words);
      return run();
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorKind::internal, fmt::format("study runs {} with flags that it has not: {}",
                                                   step.name, error.what()));
    }
  }

  // A study that cannot run here is told; the others go on.
  int run_step(const StudyStep& step) const {
    const Words words = words_of(step);
    ridgeline::print("{}\n== ridgeline {}\n", fitting(step).said, fmt::join(words, " "));
    std::fflush(stdout);
    const FreshArguments fresh({"--only", step.name});
    try {
      return start(step, words);
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

  SweepResult sweep_attention() {
    watch_for_interrupts();
    const FreshArguments fresh({"--only", kAttention});
    return run_attention_sweep(
        attention_workloads(), *device_,
        {.study = {.protocol = protocol_,
                   .try_beyond_budget = false,
                   .settings = settings_of(flags_.device, *device_),
                   .interrupted = sweep_interrupted},
         .directory = directory_,
         .resume = flags_.resume,
         .runs = flags_.runs,
         .command =
             "ridgeline attention" + to_command(flags_.device, *device_) + to_command(protocol_)});
  }

  int run_attention_study() {
    ridgeline::print("\n== attention\n");
    const SweepResult result = sweep_attention();
    results_.push_back(directory_ / "attention.jsonl");
    return exit_code(result);
  }

  std::vector<Record> all_records() const {
    std::vector<Record> records;
    for (const fs::path& path : results_)
      for (Record& record : read_results(path).records) records.push_back(std::move(record));
    return records;
  }

  void save_baseline() const {
    History history(History::file_in(flags_.results_dir), Database::Open::create);
    say("saved {} rows as baseline '{}' in {}",
        history.save(flags_.save_baseline, all_records()).rows, flags_.save_baseline,
        History::file_in(flags_.results_dir).string());
  }

  void write_results() const {
    std::vector<fs::path> reports = {directory_ / "report.html"};
    if (!flags_.output.empty()) reports.emplace_back(flags_.output);
    for (const fs::path& path : write_reports({.results = results_, .outputs = reports}))
      ridgeline::print("\nReport:  {}   (open it in a browser)\n", path.string());
    if (flags_.json.empty()) return;
    write_file_atomically(flags_.json, records_json(all_records()));
    ridgeline::print("JSON:    {}\n", flags_.json);
  }

  const WholeStudyFlags& flags_;
  const fs::path directory_;
  const Protocol protocol_;
  const std::unique_ptr<Device> device_;
  std::vector<FileDescriptor>
      held_;  // outputs that are pipes: their readers see no end before the work is done
  std::vector<fs::path> results_;
  int code_ = 0;
};

}  // namespace

Run add_study_command(CLI::App& app) {
  auto flags = std::make_shared<WholeStudyFlags>();
  CLI::App* command = app.add_subcommand(
      "study", "all studies, at a size that fits this machine, and a report of them");
  add_device_flags(*command, flags->device);
  add_protocol_flags(*command, flags->protocol);
  flags->given_warmups = command->get_option("--num-warmup");
  flags->given_warmups->description("untimed runs before the first sample of a row")
      ->default_str("");
  command->add_option("-o,--output", flags->output, "a further report: .html, .md, .svg or .png");
  command->add_option("--json", flags->json,
                      "a further file with all records, raw samples included, as one JSON array");
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

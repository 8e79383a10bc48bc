// The memory study: where the memory of attention, or of a whole model, goes. It has no rows to
// sweep over: an account is a text.
#include <fmt/format.h>

#include "base/file_io.h"
#include "base/print.h"
#include "measure/turns.h"
#include "runtime/scratch.h"
#include "studies/attention/row.h"
#include "studies/memory/attention.h"
#include "studies/memory/model_account.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

constexpr const char* kModelSize = "--model-size";

class Memory final : public Study {
 public:
  void declare(Flags& flags) override {
    add_model_axes(flags, &axes_);
    for (const char* name : {"--context-length", "--precision", "--impl", "--scenario",
                             "--optimizer", "--max-norm", "--d-ff", "--layers", "--vocabulary"})
      flags.at(name).rules.needs = {kModelSize};
    flags.at(kModelSize).help =
        "a whole model instead of attention: small, medium, large, xl, 2.7B, 10B";
    Flag& batch_size = flags.at("--batch-size");
    batch_size.help = "independent sequences; of attention 8 unless given";
    batch_size.rules.given = &gave_batch_size_;
    flags.at("--heads").help = "heads per sequence (1), or of the model";
    flags.at("--d-model").help =
        "width of one head, as --head-dim, or of the model's residual stream";
    flags.add("--measure", &measure_, "of a model: also run one step, where it fits",
              {.needs = {kModelSize}});
    add_output_flags(flags, &shared.output);
    for (const char* name : {"--output", "--json"}) {
      Flag& flag = flags.at(name);
      flag.rules.needs = {kModelSize};
      flag.help = "of a model: " + flag.help;
    }
    flags.add(
        "--seq-len", &config_.seq_len, "sequence length of attention",
        {.shows_default = true, .range = FlagRange{1, int64_t{1} << 40}, .excludes = {kModelSize}});
    add_causal(flags, &config_.causal).rules.excludes = {kModelSize};
    flags.add("--head-dim", &config_.head_dim, "width of one head of attention",
              {.shows_default = true,
               .range = FlagRange{1, 1 << 24},
               .excludes = {kModelSize, "--d-model"}});
    flags.add("--dtype", &dtype_, "of attention: fp32, tf32, bf16 or fp16",
              {.shows_default = true,
               .choices = {"fp32", "tf32", "bf16", "fp16"},
               .excludes = {kModelSize}});
    add_device_flags(flags, &shared.device);
    add_results_dir(flags, &shared.results_dir, "where the text goes");
    flags.add("--dry-run", &shared.dry_run, "predict only, run nothing, write no file");
  }

  std::optional<int> run_instead(StudyRun& run) override {
    if (axes_.sizes.empty()) {
      account_attention_memory(run);
      return 0;
    }
    const auto outputs = check_output(shared.output);
    account_models(run, axes_,
                   {.output = shared.output, .measure = measure_, .dry_run = shared.dry_run});
    return 0;
  }

 private:
  void account_attention_memory(StudyRun& run) {
    // Flags of models that attention has, too, under another meaning or default.
    if (gave_batch_size_) config_.batch_size = axes_.batch_size;
    if (axes_.overrides.heads > 0) config_.heads = axes_.overrides.heads;
    if (axes_.overrides.d_model > 0) config_.head_dim = axes_.overrides.d_model;
    config_.dtype = parse_float_dtype(dtype_);
    const auto measured = shared.dry_run ? std::nullopt : measure_once(run);
    const std::string analysis = memory_analysis(config_, measured, scratch_of(run.device));
    print("{}", analysis);
    if (shared.dry_run) return;
    const std::filesystem::path path =
        run.results_dir / "attention" /
        fmt::format("memory_analysis_d{}_s{}.txt", config_.head_dim, config_.seq_len);
    write_file_atomically(path, analysis);
    print("\nWritten to {}.\n", path.string());
  }

  // One run of forward and backward, if it fits; the account stands without it.
  std::optional<MeasuredMemory> measure_once(StudyRun& run) const {
    const AttentionStudyOptions options{.protocol = {.warmups = 0, .iterations = 1},
                                        .verify = false,
                                        .interrupted = run.interrupted};
    const AttentionWorkload workload{config_, "naive"};
    const Record described = describe_attention(workload, run.device, options, {});
    const Bytes predicted = *described.memory.predicted_peak, budget = run.device.ledger().budget();
    if (predicted > budget) {
      print("The predicted peak of {} is above the budget of {}: predicted only.\n\n",
            to_string(predicted), to_string(budget));
      return std::nullopt;
    }
    const std::optional<Record> record = run_attention(workload, run.device, options, described);
    if (!record) throw Interrupted();
    return measured_memory(*record);
  }

  ModelAxes axes_ = {.sizes = {}, .context_lengths = {512}, .scenarios = {"full-step"}};
  bool gave_batch_size_ = false;
  AttentionConfig config_{.batch_size = 8, .seq_len = 8192, .head_dim = 16};
  std::string dtype_ = "fp32";
  bool measure_ = false;  // runs a step of every row that fits
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
              "forward,full-step",
          .make = make_study<Memory>};
}

}  // namespace ridgeline

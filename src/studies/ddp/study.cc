// The ddp study: measures training steps on several ranks under each strategy; its calculator
// predicts their memory and time on paper.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "base/units.h"
#include "models/accumulate.h"
#include "studies/ddp/predict.h"
#include "studies/ddp/predict_flags.h"
#include "studies/ddp/row.h"
#include "studies/ddp/tables.h"
#include "studies/model/flags.h"
#include "studies/ranks/flags.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Ddp final : public Study {
 public:
  Ddp() {
    shared.device.device = "cpu";
    shared.protocol = {.warmups = 2, .iterations = 20, .time_budget = "5s"};
  }

  void declare(Flags& flags) override {
    add_model_sizes(flags, &axes_);
    Flag& size = flags.at("--model-size");
    size.help = fmt::format(
        "small, medium, large, xl, 2.7B or 10B; of {} also {}: 126 blocks of two linear layers, "
        "16384 and 53248 wide",
        kPredict, kLinearBlocksSize);
    size.rules.choices.emplace_back(kLinearBlocksSize);
    flags.at("--batch-size").help = "sequences per step of each rank";
    ranks_.declare(flags);
    flags.add("--strategy", &strategies_,
              "naive, flat, overlapped, bucketed, sharded, fsdp (default: all)",
              {.choices = names_of(parallel_strategies()), .only_choices = true});
    flags.add("--bucket-mb", &bucket_mb_,
              "bytes of a bucket, in units of 1e6 (default: 25, on paper the best by latency and "
              "bandwidth)",
              {.range = FlagRange{1, 1 << 20}});
    add_accumulate(flags, &axes_.micro_batches);
    flags.add("--precision", &axes_.precisions, "fp32 or mixed, of what is measured",
              {.shows_default = true, .choices = {"fp32", "mixed"}, .only_choices = true});
    flags.add("--impl,--mode", &axes_.modes,
              "vanilla, fused, flash or compiled, of what is measured",
              {.shows_default = true, .choices = names_of(modes())});
    flags.add("--trace", &trace_,
              "write a step of all ranks for Chrome and Perfetto there, of one row: what each "
              "computes and communicates; compressed if it ends in .gz");
    add_predict_flags(flags, &predict_);
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    flags.at("--threads").help = "of each rank (default: the available ones, shared out)";
    add_sweep_flags(flags, &shared,
                    {.list = "model sizes, strategies, backends and algorithms",
                     .no_verify = "do not compare parameters between ranks"});
  }

  std::string list() const override {
    std::string text = "model sizes:\n";
    for (const TransformerConfig& config : transformer_sizes())
      text += listed(config.name, fmt::format("{:.1f} M parameters",
                                              static_cast<double>(parameter_count(config)) / 1e6));
    text += listed(kLinearBlocksSize, "219848.6 M parameters: the example of the assignment");
    text += "strategies:\n" + listed(parallel_strategies());
    text += ranks_.list_backends();
    return text + "algorithms of collectives, on paper:\n" + listed(collective_algorithms(), 14);
  }

  void check() override {
    for (const std::string& name : strategies_) parse_parallel_strategy(name);
    if (!predict_.asked) return check_measured();
    if (!shared.output.json.empty() || output_is_jsonl())
      throw Error(ErrorKind::usage, "the calculator has no records, but a table",
                  "give --output FILE.csv or FILE.md");
    if (axes_.sizes.size() != 1 || axes_.context_lengths.size() != 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("{} is about one model, but --model-size is {} and --context-length {}",
                      kPredict, fmt::join(axes_.sizes, ","), fmt::join(axes_.context_lengths, ",")),
          "choose one of each");
    check_micro_batches(axes_.batch_size, axes_.micro_batches);
    options_ = predict_options(predict_);
    options_.batch_size = axes_.batch_size;
    options_.context_length = axes_.context_lengths.front();
    options_.micro_batches = axes_.micro_batches;
    options_.ranks = ranks_.gave_ranks() ? ranks_.ranks() : std::vector<int64_t>{8};
    if (bucket_mb_.size() > 1)
      throw Error(ErrorKind::usage, fmt::format("{} takes one size of buckets", kPredict));
    if (!bucket_mb_.empty())
      options_.bucket_bytes = static_cast<double>(bucket_mb_[0] * kBucketUnit);
    options_.strategies = parsed(strategies_, parse_parallel_strategy);
    if (!is_linear_blocks()) config();  // throws for sizes that make no model
  }

  std::optional<int> run_instead(StudyRun& run) override {
    if (!predict_.asked) return ranks_.serve(run, configuration(run), shared.dry_run);
    const auto outputs = check_output(shared.output);
    const Calculator calculator(is_linear_blocks() ? predicted_model(linear_blocks())
                                                   : predicted_model(config(), run.device),
                                options_);
    print("{}\n", assumptions());
    for (const Table& table :
         {calculator.memory_by_part(), calculator.memory_by_strategy(), calculator.hiding()})
      print("{}\n", to_terminal(table));
    print_notes(calculator.account_notes());
    print("\n");
    for (const Table& table : {calculator.steps_by_strategy(), calculator.steps_by_algorithm()})
      print("{}\n", to_terminal(table));
    print_notes(calculator.simulation_notes());
    write_output(shared.output, {}, calculator.csv());
    return 0;
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const std::vector<DdpWorkload> workloads = expand_matrix(matrix(run.device));
    if (!trace_.empty() && workloads.size() > 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("{} rows would write their trace to '{}', from '{}' to '{}'",
                      workloads.size(), trace_, label(workloads.front()), label(workloads.back())),
          "name one --strategy, --backend and number of --ranks");
    World* world = shared.dry_run ? nullptr : ranks_.join(run, configuration(run));
    DdpOptions options{.row = row_options(run, shared)};
    if (!trace_.empty()) options.trace = std::filesystem::absolute(trace_).string();
    runner_.emplace(run.device, std::move(options), world);
    std::vector<StudyRow> rows =
        rows_of(workloads, *runner_, run, [&](const DdpWorkload& workload) {
          const Distribution& how = workload.distribution;
          return fmt::format(
              "ridgeline ddp{}{} --batch-size {}{} --ranks {} --backend {} --strategy {}{}",
              shared_words(run, shared, workload.threads), to_command(workload.model),
              axes_.batch_size, to_command(axes_.overrides) + accumulate_words(), how.ranks,
              workload.backend, info(how.strategy).name,
              how.strategy == ParallelStrategy::bucketed
                  ? fmt::format(" --bucket-mb {}", how.bucket.count / kBucketUnit)
                  : std::string());
        });
    if (!shared.dry_run) return rows;
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i].peaks = runner_->ranks_per_device(workloads[i]);
    return with_predicted_peaks(std::move(rows), workloads, *runner_);
  }

  std::vector<WrittenFile> also_written() const override {
    if (trace_.empty()) return {};
    return {{"--trace", trace_}};
  }

  // A model so small that two ranks train it quickly on a small machine.
  bool set_up(const StudySetup& setup) override {
    axes_.overrides = {.d_model = 64, .d_ff = 256, .layers = 2, .heads = 4, .vocabulary = 1000};
    axes_.context_lengths = {64};
    axes_.batch_size = 2;
    ranks_.asked_backends = {"threads"};  // the one backend that is always available
    ranks_.set_ranks({2});
    return setup.attempt == 0;
  }

 private:
  bool is_linear_blocks() const { return axes_.sizes.front() == kLinearBlocksSize; }

  bool output_is_jsonl() const {
    return !shared.output.table.empty() &&
           output_format(shared.output.table) == OutputFormat::jsonl;
  }

  LinearBlocks linear_blocks() const {
    LinearBlocks sizes;
    const ModelOverrides& given = axes_.overrides;
    if (given.d_model > 0) sizes.d_model = given.d_model;
    if (given.d_ff > 0) sizes.d_ff = given.d_ff;
    if (given.layers > 0) sizes.blocks = given.layers;
    return sizes;
  }

  void check_measured() {
    if (!trace_.empty()) trace_file_ = check_writable(trace_);
    if (is_linear_blocks())
      throw Error(ErrorKind::usage, fmt::format("{} is a model on paper", kLinearBlocksSize),
                  fmt::format("add {}", kPredict));
    check_micro_batches(axes_.batch_size, axes_.micro_batches);
    workloads_of(axes_);  // throws for sizes that make no model
  }

  std::string accumulate_words() const {
    return axes_.micro_batches > 1 ? fmt::format(" --accumulate {}", axes_.micro_batches)
                                   : std::string();
  }

  DdpMatrix matrix(Device& device) const {
    return {.models = workloads_of(axes_),
            .backends = ranks_.backends(&device),
            .strategies = strategies_.empty() ? names_of(parallel_strategies()) : strategies_,
            .ranks = ranks_.ranks(),
            .bucket_mb = bucket_mb_,
            .threads = shared.device.threads,
            .ranks_of_host = ranks_.launched() ? ranks_.launched()->local_size : 0};
  }

  std::string configuration(const StudyRun& run) const {
    std::string models;
    for (const ModelWorkload& model : workloads_of(axes_)) models += to_command(model);
    return fmt::format(
        "ddp{} --batch-size {}{} --strategy {} --bucket-mb {} --backend {} --threads {}{}", models,
        axes_.batch_size, to_command(axes_.overrides) + accumulate_words(),
        fmt::join(strategies_, ","), fmt::join(bucket_mb_, ","),
        fmt::join(ranks_.asked_backends, ","), shared.device.threads, to_command(run.protocol));
  }

  TransformerConfig config() const { return workloads_of(axes_).front().config; }

  std::string assumptions() const {
    const PaperDevice& device = options_.device;
    const Network& network = options_.network;
    return fmt::format(
        "On paper: {} at {:.4g} TFLOP/s x {:.2g} in {}; {} of memory by {}, {} by {};\n{} ranks in "
        "a "
        "node with {} and {} per message, {} and {} between nodes. Nothing was run.\n",
        device.name, device.peak_flops_per_s / 1e12, device.utilisation, predict_.dtype,
        format_decimal_bytes(device.memory_bytes), device.memory_source,
        format_bandwidth(device.memory_bytes_per_s), device.bandwidth_source,
        network.ranks_per_node, format_bandwidth(network.inside.bytes_per_s),
        format_seconds(network.inside.latency_s), format_bandwidth(network.between.bytes_per_s),
        format_seconds(network.between.latency_s));
  }

  ModelAxes axes_ = {.context_lengths = {512}, .modes = {"compiled"}};
  RankFlags ranks_{{2}};  // outlives the runner
  Words strategies_;
  std::vector<int64_t> bucket_mb_;
  std::string trace_;
  FileDescriptor trace_file_;
  std::optional<DdpRunner> runner_;
  PredictFlags predict_;
  PredictOptions options_;
};

}  // namespace

StudyInfo ddp_study() {
  return {
      .name = "ddp",
      .summary = "training on several ranks: memory, communication and step time by strategy",
      .examples =
          "Examples:\n"
          "  ridgeline ddp --context-length 128 --ranks 2 4       every strategy, by every backend "
          "that is here\n"
          "  ridgeline ddp --strategy naive,bucketed --bucket-mb 1 10 100 --backend threads\n"
          "  mpirun -n 4 ridgeline ddp --backend openmpi          ranks of a launcher, on one "
          "host or several\n"
          "  ridgeline ddp --predict --model-size 10B --ranks 8 --bandwidth 450GB/s\n"
          "  ridgeline ddp --predict --model-size xxl --ranks 64 --peak-tflops 460 "
          "--device-memory 95GB \\\n"
          "    --utilisation 1 --bandwidth 180GB/s --mesh 16,4 --mesh-links 2,1",
      .make = make_study<Ddp>,
      .csv = ddp_csv,
      .title = "Training on several ranks",
      .table = ddp_summary,
      .notes = with_verdicts<ddp_notes>,
      .in_reports = "Training on several ranks",
      .sections = {ddp_section},
      .takes_turns = true,
      .turn = 14};
}

}  // namespace ridgeline

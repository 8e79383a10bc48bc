// Training on several ranks: the calculator, which says on paper what strategies need and how long
// their steps take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bandwidth.h"
#include "base/error.h"
#include "base/print.h"
#include "base/units.h"
#include "studies/ddp/predict.h"
#include "studies/ddp/predict_flags.h"
#include "studies/model/flags.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Ddp final : public Study {
 public:
  Ddp() { shared.device.device = "cpu"; }

  void declare(Flags& flags) override {
    add_model_sizes(flags, &axes_);
    Flag& size = flags.at("--model-size");
    size.help = fmt::format(
        "small, medium, large, xl, 2.7B or 10B; of {} also {}: 126 blocks of two linear layers, "
        "16384 and 53248 wide",
        kPredict, kLinearBlocksSize);
    size.rules.choices.emplace_back(kLinearBlocksSize);
    flags.at("--batch-size").help = "sequences per step of each rank";
    flags.add("--ranks", &ranks_, "how many", {.shows_default = true});
    flags.add("--strategy", &strategies_,
              "naive, flat, overlapped, bucketed, sharded, fsdp (default: all)",
              {.choices = names_of(parallel_strategies()), .only_choices = true});
    flags.add("--bucket-mb", &bucket_mb_,
              "bytes of a bucket, in units of 1e6 (default: the best by latency and bandwidth)",
              {.range = FlagRange{0, 1 << 20}});
    flags.add("--accumulate", &micro_batches_, "micro-batches that a step's batch is cut into",
              {.shows_default = true, .range = FlagRange{1, 1 << 16}});
    add_predict_flags(flags, &predict_);
    add_device_flags(flags, &shared.device);
    add_output_flags(flags, &shared.output);
    flags.add("--list", &shared.list, "list model sizes, strategies and algorithms");
  }

  std::string list() const override {
    std::string text = "model sizes:\n";
    for (const TransformerConfig& config : transformer_sizes())
      text += listed(config.name, fmt::format("{:.1f} M parameters",
                                              static_cast<double>(parameter_count(config)) / 1e6));
    text += listed(kLinearBlocksSize, "219848.6 M parameters: the example of the assignment");
    text += "strategies:\n" + listed(parallel_strategies());
    return text + "algorithms of collectives, on paper:\n" + listed(collective_algorithms(), 14);
  }

  void check() override {
    if (!predict_.asked)
      throw Error(ErrorKind::usage, "ddp measures nothing here, it predicts", "add --predict");
    if (!shared.output.json.empty() || output_is_jsonl())
      throw Error(ErrorKind::usage, "the calculator has no records, but a table",
                  "give --output FILE.csv or FILE.md");
    if (axes_.sizes.size() != 1 || axes_.context_lengths.size() != 1)
      throw Error(
          ErrorKind::usage,
          fmt::format("{} is about one model, but --model-size is {} and --context-length {}",
                      kPredict, fmt::join(axes_.sizes, ","), fmt::join(axes_.context_lengths, ",")),
          "choose one of each");
    if (axes_.batch_size % micro_batches_ != 0)
      throw Error(ErrorKind::usage,
                  fmt::format("--accumulate {} does not divide --batch-size {}", micro_batches_,
                              axes_.batch_size),
                  "choose a divisor");
    options_ = predict_options(predict_);
    options_.batch_size = axes_.batch_size;
    options_.context_length = axes_.context_lengths.front();
    options_.micro_batches = micro_batches_;
    options_.ranks = ranks_;
    if (bucket_mb_ > 0) options_.bucket_bytes = static_cast<double>(bucket_mb_) * 1e6;
    for (const std::string& name : strategies_)
      options_.strategies.push_back(parse_parallel_strategy(name));
    if (!is_linear_blocks()) config();  // throws for sizes that make no model
  }

  std::optional<int> run_instead(StudyRun& run) override {
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

  TransformerConfig config() const { return workloads_of(axes_).front().config; }

  std::string assumptions() const {
    const PaperDevice& device = options_.device;
    const Network& network = options_.network;
    return fmt::format(
        "On paper: {} at {:.4g} TFLOP/s x {:.2g} in {}, {} of memory; {} ranks in a node with {} "
        "and "
        "{} per message,\n{} and {} between nodes. Nothing was run.\n",
        device.name, device.peak_flops_per_s / 1e12, device.utilisation, predict_.dtype,
        format_decimal_bytes(device.memory_bytes), network.ranks_per_node,
        format_bandwidth(network.inside.bytes_per_s), format_seconds(network.inside.latency_s),
        format_bandwidth(network.between.bytes_per_s), format_seconds(network.between.latency_s));
  }

  ModelAxes axes_ = {.context_lengths = {512}};
  std::vector<int64_t> ranks_ = {8};
  Words strategies_;
  int64_t bucket_mb_ = 0, micro_batches_ = 1;
  PredictFlags predict_;
  PredictOptions options_;
};

}  // namespace

StudyInfo ddp_study() {
  return {.name = "ddp",
          .summary = "training on several ranks: memory, communication and step time by strategy",
          .examples =
              "Examples:\n"
              "  ridgeline ddp --predict --model-size 10B --ranks 8 --bandwidth 450GB/s\n"
              "  ridgeline ddp --predict --model-size xxl --ranks 64 --peak-tflops 460 "
              "--device-memory 95GB \\\n"
              "    --utilisation 1 --bandwidth 180GB/s --mesh 16,4 --mesh-links 2,1",
          .make = make_study<Ddp>,
          .title = "Training on several ranks"};
}

}  // namespace ridgeline

// The precision study: where 16 bits lose digits, which dtypes autocast selects, and what it gains.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/print.h"
#include "studies/model/flags.h"
#include "studies/precision/row.h"
#include "studies/precision/tables.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

constexpr int64_t kRepeats = 1000;  // of 0.01, as in the assignment
constexpr int64_t kLongest = int64_t{1} << 24;

struct FormatPair {
  FloatFormat values, accumulator;
};

FormatPair parse_pair(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos)
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a pair of formats", text),
                "write values/sums, such as fp16/fp32");
  const auto format = [](std::string_view name) { return kFloatFormats.find(name).format; };
  return {format(text.substr(0, slash)), format(text.substr(slash + 1))};
}

double parse_magnitude(const std::string& text) {
  const double value = parse_number<double>(text).value_or(0);
  if (!(value > 0) || !std::isfinite(value))
    throw Error(ErrorKind::usage, fmt::format("--magnitude '{}' is not a number above 0", text),
                "write the standard deviation of the operands, such as 1000");
  return value;
}

Words all_pairs() {
  Words pairs;
  for (const FloatFormatInfo& values : kFloatFormats)
    for (const FloatFormatInfo& accumulator : kFloatFormats)
      pairs.push_back(fmt::format("{}/{}", values.name, accumulator.name));
  return pairs;
}

// The pairs that differ most: one format for all, and 16-bit values in fp32 sums.
Words few_pairs() {
  return {"fp32/fp32", "fp16/fp16", "bf16/bf16", "fp16/fp32", "bf16/fp32"};
}

class Precision final : public Study {
 public:
  Precision() {
    shared.protocol = {.warmups = 5, .iterations = 10};
    axes_.context_lengths = {128};
    axes_.precisions = {"fp32", "mixed"};
    axes_.modes = {"compiled"};
  }

  void declare(Flags& flags) override {
    flags.add("--part", &parts_, "accumulate, norm, flow, compare, training",
              {.shows_default = true, .choices = names_of(kPrecisionParts)});
    flags.add("--op", &ops_, "of accumulate and norm, see --list (default: all)",
              {.choices = names_of(kReducedOps)});
    flags.add("--pair", &pairs_,
              "format of values/format of sums (default: all 16 for repeated, five for the others)",
              {.choices = all_pairs()});
    flags.add("--length", &lengths_, "of sums, dot products, softmax and norms",
              {.shows_default = true});
    flags.add("--magnitude", &magnitudes_, "of norms: the standard deviation of the operands",
              {.shows_default = true});
    flags.add("--autocast", &autocasts_, "of flow: fp16, bf16",
              {.shows_default = true, .choices = {"fp16", "bf16"}, .only_choices = true});
    add_model_axes(flags, &axes_);
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "parts, ops, formats and models",
                     .no_verify = "of compare: do not look at losses and kernels"});
  }

  std::string list() const override {
    std::string text = "parts:\n" + listed(kPrecisionParts) + "ops:\n" + listed(kReducedOps) +
                       "models of flow:\n" + listed(kFlowModels) + "trainings:\n" +
                       listed(kTrainingVariants) + "formats:\n";
    for (const FloatFormatInfo& format : kFloatFormats)
      text += fmt::format("  {:<12} epsilon {:.3g}, largest {:.3g}\n", format.name, format.epsilon,
                          format.largest);
    return text;
  }

  void check() override {
    workloads_.clear();
    for (const int64_t length : lengths_)
      if (length > kLongest)
        throw Error(ErrorKind::usage,
                    fmt::format("--length {} is too long, expected at most {}", length, kLongest),
                    "choose a shorter one: the errors of narrow sums show far below it");
    for (const std::string& op : ops_) kReducedOps.find(op);
    for (const std::string& name : parts_) add(kPrecisionParts.find(name).part);
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    study_.emplace(run.device, ModelStudyOptions{.row = row_options(run, shared),
                                                 .scenarios = scenarios_of(axes_),
                                                 .optimizer = optimizer_of(axes_)});
    return rows_of(workloads_, *study_, run, [&](const PrecisionWorkload& workload) {
      return fmt::format("ridgeline precision{} {}", shared_words(run, shared),
                         own_words(workload));
    });
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    print("{} on {}\n\n", run.info.title, run.device.description());
    for (const Table& table : precision_tables(records))
      print("{}\n", to_terminal(table, run.file("csv")));
    print_notes(precision_notes(records));
  }

  bool set_up(const StudySetup& setup) override {
    ops_ = {"repeated", "sum", "rms_norm"};
    pairs_ = few_pairs();
    lengths_ = {64, 16384};
    magnitudes_ = {"1", "1000"};
    return setup.attempt == 0;
  }

 private:
  void add(PrecisionPart part) {
    if (part == PrecisionPart::compare) {
      for (const ModelWorkload& workload : workloads_of(axes_)) workloads_.emplace_back(workload);
    } else if (part == PrecisionPart::training) {
      for (const TrainingVariantInfo& variant : kTrainingVariants)
        workloads_.emplace_back(TrainingRun{.variant = variant.variant});
    } else if (part == PrecisionPart::flow) {
      for (const FlowModelInfo& model : kFlowModels)
        for (const std::string& dtype : autocasts_)
          workloads_.emplace_back(DtypeFlow{model.model, parse_float_dtype(dtype)});
    } else {
      for (const ReducedOpInfo& op : kReducedOps)
        if (op.is_norm == (part == PrecisionPart::norm) &&
            (ops_.empty() || std::ranges::count(ops_, op.name) > 0))
          add_reductions(op.op);
    }
  }

  void add_reductions(ReducedOp op) {
    const bool is_repeated = op == ReducedOp::repeated;
    const Words pairs = !pairs_.empty() ? pairs_ : is_repeated ? all_pairs() : few_pairs();
    const std::vector<int64_t> lengths = is_repeated ? std::vector{kRepeats} : lengths_;
    const Words magnitudes = info(op).is_norm ? magnitudes_ : Words{"1"};
    for (const std::string& magnitude : magnitudes)
      for (const std::string& pair : pairs)
        for (const int64_t length : lengths) {
          const auto [values, accumulator] = parse_pair(pair);
          workloads_.emplace_back(RoundedReduction{.op = op,
                                                   .values = values,
                                                   .accumulator = accumulator,
                                                   .length = length,
                                                   .magnitude = parse_magnitude(magnitude)});
        }
  }

  std::string own_words(const PrecisionWorkload& workload) const {
    if (const auto* model = std::get_if<ModelWorkload>(&workload))
      return fmt::format("--part compare{}{}", to_command(axes_, model->precision),
                         to_command(*model));
    if (const auto* flow = std::get_if<DtypeFlow>(&workload))
      return fmt::format("--part flow --autocast {}", info(flow->autocast).name);
    if (std::holds_alternative<TrainingRun>(workload)) return "--part training";
    const auto& reduction = std::get<RoundedReduction>(workload);
    std::string words = fmt::format("--part {} --op {} --pair {}",
                                    info(reduction.op).is_norm ? "norm" : "accumulate",
                                    info(reduction.op).name, pair_name(reduction));
    if (reduction.op != ReducedOp::repeated) words += fmt::format(" --length {}", reduction.length);
    if (info(reduction.op).is_norm) words += fmt::format(" --magnitude {}", reduction.magnitude);
    return words;
  }

  Words parts_ = {"accumulate", "norm", "flow", "training"};
  Words ops_, pairs_;
  std::vector<int64_t> lengths_ = {64, 512, 4096, 32768};
  Words magnitudes_ = {"0.001", "1", "1000"};
  Words autocasts_ = {"fp16", "bf16"};
  ModelAxes axes_;
  std::vector<PrecisionWorkload> workloads_;
  std::optional<PrecisionStudy> study_;
};

}  // namespace

StudyInfo precision_study() {
  return {
      .name = "precision",
      .summary =
          "where 16 bits lose digits, dtypes under autocast, full against mixed, loss scaling",
      .examples =
          "Examples:\n"
          "  ridgeline precision                                 all but models, in some seconds\n"
          "  ridgeline precision --part training                 fp16 with and without loss "
          "scaling\n"
          "  ridgeline precision --part norm --magnitude 100,300 --length 4096\n"
          "  ridgeline precision --part compare --model-size small,large --context-length 512",
      .make = make_study<Precision>,
      .csv = precision_csv,
      .title = "Precision study",
      .in_reports = "Precision",
      .sections = {precision_section},
      .turn = 8};
}

}  // namespace ridgeline

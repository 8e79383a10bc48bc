// The cost study: counts work and bounds its time by the ceilings of any device, without running
// it.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/print.h"
#include "studies/cost/row.h"
#include "studies/cost/tables.h"
#include "studies/model/flags.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Costs final : public Study {
 public:
  void declare(Flags& flags) override {
    flags.add("op", &ops_, "what is counted (default: all of it); see --list",
              {.choices = names_of(kCostOps), .only_choices = true});
    add_gpus(flags, &gpus_).rules.shows_default = true;
    add_dtypes(flags, &dtypes_).rules.shows_default = true;
    flags.add("--size", &matrix_.sizes, "of square products", {.shows_default = true});
    flags.add("--shape", &shapes_,
              "M,N,K of one product instead; give it again for more; N = 1 is a gemv",
              {.splits = false});
    add_model_sizes(flags, &axes_);
    flags.add("--model-config", &gemmas_,
              "a Gemma-3 instead, of which `model` is counted: 270m, 1b, 4b, or a config.json",
              {.choices = names_of(gemma3_sizes()),
               .excludes = {"--model-size", "--d-model", "--d-ff", "--layers", "--heads",
                            "--vocabulary"}});
    flags.at("--context-length").names = "--context-length,--seq-len";
    flags.at("--context-length").help =
        "tokens of a prefill, and in the cache of decode once the new one is there";
    flags.add("--head-dim", &head_dim_, "width of one head, instead of --d-model",
              {.range = FlagRange{1, 1 << 24}, .excludes = {"--d-model"}});
    add_implementations(flags, &forms_, "of attention, in layers and models too: naive, flash",
                        names_of(kCostForms))
        .rules.shows_default = true;
    flags.add("--phase", &phases_, "prefill, decode, fwd-bwd, full-step",
              {.shows_default = true, .choices = names_of(kCostPhases)});
    add_causal(flags, &matrix_.causal).help =
        "of attention alone: a query sees only keys up to its own position (layers always do)";
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "what can be counted, phases, forms and GPUs", .no_verify = ""});
  }

  std::string list() const override {
    std::string text = "counted:\n" + listed(kCostOps, 15) + "phases:\n" + listed(kCostPhases, 15) +
                       "forms of attention (--impl):\n" + listed(kCostForms, 15) +
                       "GPUs (--gpu), by their data sheets:\n ";
    for (const GpuSpec& spec : gpu_specs()) text += " " + typed_name(spec);
    return text + "\n";
  }

  void check() override {
    const Words all = gemmas_.empty() ? names_of(kCostOps) : Words{"model"};
    matrix_.ops = kCostOps.find_all(ops_.empty() ? all : ops_, &CostOpInfo::op);
    matrix_.phases = kCostPhases.find_all(phases_, &CostPhaseInfo::phase);
    matrix_.forms = kCostForms.find_all(forms_, &CostForm::form);
    matrix_.dtypes = parsed(dtypes_, parse_float_dtype);
    matrix_.shapes = parsed(shapes_, parse_gemm_shape);
    if (!shapes_.empty()) matrix_.sizes.clear();
    matrix_.models = gemmas_.empty() ? models() : std::vector<TransformerConfig>();
    matrix_.gemmas = gemmas_of(gemmas_, axes_.context_lengths, axes_.batch_size);
    if (!gemmas_.empty() && std::ranges::count(matrix_.ops, CostOp::model) == 0)
      throw Error(ErrorKind::usage,
                  "of --model-config the cost of `model` is counted, which was not asked for",
                  "name model, or see `ridgeline decode --layer --dry-run` for parts of a layer");
    data_sheets_ = data_sheets_of(gpus_);
    works_ = expand_matrix(matrix_);
    if (works_.empty() && !gemmas_.empty())
      throw Error(ErrorKind::usage, "a Gemma-3 has the phases prefill and decode",
                  "give one of them as --phase");
    if (works_.empty())
      throw Error(ErrorKind::usage, "no --shape is of what was asked for",
                  "ask for gemm where N is above 1, for gemv where it is 1");
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const auto measured = beside_measured_
                              ? stored_ceilings(run.results_dir, run.device, run.blank.machine)
                              : std::nullopt;
    study_.emplace(run.device, row_options(run, shared));
    return rows_of(cost_rows(works_, data_sheets_, measured), *study_, run,
                   [&](const CostRow& row) {
                     return fmt::format("ridgeline cost{}{} --seed {}", to_command(row),
                                        run.device_words, shared.seed);
                   });
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const PhaseCost& cost = row.described.cost->forward;
    return {{"GMAC", fmt::format("{:.4g}", static_cast<double>(cost.macs) / 1e9)},
            {"FLOP/byte",
             fmt::format("{:.4g}", flops_done(cost) / static_cast<double>(cost.bytes.count))}};
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    print("{}\n\n{}\n{}\n", run.info.title, to_terminal(cost_counts(records), run.file("csv")),
          to_terminal(cost_times(records), run.file("csv")));
    print_notes(cost_notes(records));
  }

  bool set_up(const StudySetup& setup) override {
    // Rows are made before the roofline has run, and its own section shows what it measured.
    beside_measured_ = false;
    ops_ = {"gemm", "gemv", "attention", "layer"};
    dtypes_ = {"fp32", "bf16"};
    return setup.attempt == 0;
  }

 private:
  std::vector<TransformerConfig> models() const {
    std::vector<TransformerConfig> found;
    for (const std::string& size : axes_.sizes) {
      ModelAxes axes = axes_;
      axes.sizes = {size};
      axes.modes = {"vanilla"};
      ModelOverrides& own = axes.overrides;
      if (head_dim_ > 0)
        own.d_model = head_dim_ * (own.heads > 0 ? own.heads : transformer_config(size).heads);
      for (const ModelWorkload& each : workloads_of(axes)) found.push_back(each.config);
    }
    return found;
  }

  Words ops_, shapes_, gemmas_;
  Words gpus_ = {"A100", "H100"};
  Words dtypes_ = {"fp32"};
  Words forms_ = {"naive", "flash"};
  Words phases_ = {"prefill", "decode"};
  ModelAxes axes_ = {.context_lengths = {1024}};
  int64_t head_dim_ = 0;
  bool beside_measured_ = true;
  CostMatrix matrix_;
  std::vector<Roofline> data_sheets_;
  std::vector<CostWorkload> works_;
  std::optional<CostStudy> study_;
};

}  // namespace

StudyInfo cost_study() {
  return {
      .name = "cost",
      .summary = "MACs, FLOPs, bytes and the least time on GPUs that you need not have",
      .examples =
          "Examples:\n"
          "  ridgeline cost gemm gemv --size 1024,8192 --dtype fp32,bf16 --gpu A100,H100,4090\n"
          "  ridgeline cost layer --model-size 2.7B --context-length 2048 --batch-size 1 --dtype "
          "bf16\n"
          "  ridgeline cost model --phase full-step --dtype bf16 --gpu H200,B200\n"
          "  ridgeline cost model --model-config 270m,1b --context-length 4096,32768 --dtype bf16\n"
          "  ridgeline roofline --gpu A100,H100                  the same as roofs",
      .make = make_study<Costs>,
      .csv = cost_csv,
      .title = "Costs: counted and calculated, nothing ran",
      .in_reports = "Other machines",
      .sections = {cost_section},
      .checks_values = false,
      .turn = 10};
}

}  // namespace ridgeline

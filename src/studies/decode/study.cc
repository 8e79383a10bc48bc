// The decode study: attention and MLP of a Gemma-3 layer, prefill against decode, with and without
// a cache.
#include <fmt/format.h>

#include "base/error.h"
#include "studies/decode/row.h"
#include "studies/decode/tables.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Decode final : public Study {
 public:
  Decode() { shared.protocol = {.warmups = 3, .iterations = 100, .time_budget = "1s"}; }

  void declare(Flags& flags) override {
    flags.add("--layer", &layer_, "measure one decoder layer and its parts");
    flags.add("--model-config", &matrix_.configs, "270m, 1b, 4b, or a config.json of Gemma-3",
              {.shows_default = true, .choices = names_of(gemma3_sizes())});
    flags.add("--prompt-length", &matrix_.prompts, "tokens that come before the new one",
              {.shows_default = true});
    flags.add("--batch-size", &matrix_.batch_sizes, "sequences", {.shows_default = true});
    const auto choose = [&](const char* names, Words* words, const char* help, Words choices) {
      flags.add(names, words, help,
                {.shows_default = true, .choices = std::move(choices), .only_choices = true});
    };
    choose("--cache", &matrix_.caches, "on, off: of keys and values", {"on", "off"});
    choose("--phase", &matrix_.phases, "prefill: the whole prompt, decode: one token after it",
           {"prefill", "decode"});
    choose("--part", &matrix_.parts, "attention, mlp, layer: each with its norms and residual",
           names_of(kLayerParts));
    choose("--layer-kind", &matrix_.kinds, "full, sliding", {"full", "sliding"});
    add_implementations(flags, &matrix_.modes, "vanilla, fused, flash, compiled", names_of(modes()))
        .rules.shows_default = true;
    add_dtypes(flags, &matrix_.dtypes).rules.shows_default = true;
    flags.add("--mode", &mode_,
              "cold: the last cache emptied before a sample, as the other layers of a model do; "
              "or hot",
              {.shows_default = true, .choices = {"hot", "cold"}, .only_choices = true});
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "models, parts and modes",
                     .no_verify = "do not compare last tokens with fp32 without a cache"});
  }

  std::string list() const override {
    std::string text = "models (--model-config):\n";
    for (const Gemma3Config& size : gemma3_sizes())
      text += fmt::format("  {:<10} width {}, MLP {}, {} heads, {} key heads of {}\n", size.name,
                          size.hidden_size, size.intermediate_size, size.heads, size.key_heads,
                          size.head_dim);
    return text + "parts:\n  attention, mlp, layer\nimplementations (--impl):\n" +
           listed(modes(), 10);
  }

  void check() override {
    if (!layer_)
      throw Error(ErrorKind::usage,
                  "`ridgeline decode` measures one decoder layer: --layer is missing",
                  "add --layer; `ridgeline generate` decodes with whole models");
    workloads_ = expand_matrix(matrix_);
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    study_.emplace(run.device,
                   LayerStudyOptions{.row = row_options(run, shared),
                                     .cold = mode_ == "cold",
                                     .roofline = stored_ceilings(run.results_dir, run.device,
                                                                 run.blank.machine)});
    return rows_of(workloads_, *study_, run, [&](const LayerWorkload& workload) {
      return fmt::format("ridgeline decode{} --mode {}{}", shared_words(run, shared), mode_,
                         to_command(workload));
    });
  }

  NamedCells planned_cells(const StudyRow& row) const override {
    const PhaseCost& cost = row.described.cost->forward;
    return {{"MMAC", fmt::format("{:.4g}", static_cast<double>(cost.macs) / 1e6)},
            {"FLOP/byte",
             fmt::format("{:.4g}", flops_done(cost) / static_cast<double>(cost.bytes.count))}};
  }

  // Takes about half a minute.
  bool set_up(const StudySetup& setup) override {
    layer_ = true;
    matrix_.prompts = {128};
    if (!setup.device.facts().is_gpu()) matrix_.batch_sizes = {1, 4};
    if (setup.attempt > 0) matrix_.batch_sizes = {1, 2};
    return setup.attempt <= 1;
  }

  bool fits(Device& device) const override {
    LayerStudy study(device, {});
    for (const LayerWorkload& workload : expand_matrix(matrix_))
      if (*study.describe(workload, {}).memory.predicted_peak > device.ledger().budget())
        return false;
    return true;
  }

 private:
  bool layer_ = false;
  LayerMatrix matrix_;
  std::string mode_ = "cold";
  std::vector<LayerWorkload> workloads_;
  std::optional<LayerStudy> study_;
};

}  // namespace

StudyInfo decode_study() {
  return {.name = "decode",
          .summary =
              "a Gemma-3 layer: attention and MLP, prefill against decode, with and without "
              "a cache",
          .examples =
              "Examples:\n"
              "  ridgeline roofline --dtype bf16 && ridgeline decode --layer\n"
              "  ridgeline decode --layer --model-config 1b --part mlp --phase decode --batch-size "
              "1,4,16,64,256\n"
              "  ridgeline decode --layer --prompt-length 128,1024 --cache on,off --device cpu",
          .make = make_study<Decode>,
          .csv = layer_csv,
          .title = "A decoder layer",
          .table = layer_summary,
          .notes = layer_notes,
          .in_reports = "A decoder layer",
          .sections = {layer_section},
          .setting_axes = {"mode"},
          .takes_turns = true,
          .turn = 12};
}

}  // namespace ridgeline

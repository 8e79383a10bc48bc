#include "studies/model/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/sort_by.h"

namespace ridgeline {
namespace {

// Flags that override a size of the named model.
struct OverrideFlag {
  const char* flag;
  int64_t ModelOverrides::*size;
  const char* description;
};
constexpr OverrideFlag kOverrides[] = {
    {"--d-model", &ModelOverrides::d_model, "width of the residual stream"},
    {"--d-ff", &ModelOverrides::d_ff, "width of the feed-forward layers"},
    {"--layers", &ModelOverrides::layers, "number of layers"},
    {"--heads", &ModelOverrides::heads, "number of heads"},
    {"--vocabulary", &ModelOverrides::vocabulary, "number of tokens"},
};

// NaN if the text is not a number.
double number_in(const std::string& text) {
  return parse_number<double>(text).value_or(std::nan(""));
}

std::string above_zero(const std::string& text) {
  const double value = number_in(text);
  return value > 0 && std::isfinite(value) ? std::string()
                                           : fmt::format("'{}' is not a number above 0", text);
}

constexpr const char* kDynamic = "dynamic";

std::string not_a_loss_scale(const std::string& text) {
  const double scale = number_in(text);
  if (text == kDynamic || (scale > 0 && scale <= std::numeric_limits<float>::max())) return {};
  return fmt::format("'{}' is neither dynamic nor a number above 0", text);
}

void expect_scaled_loss(const ModelAxes& axes) {
  for (const std::string& name : axes.precisions)
    if (info(kModelPrecisions.find(name).precision).scales_loss) return;
  throw Error(ErrorKind::usage,
              fmt::format("--loss-scale is about fp16, but --precision {} scales no loss",
                          fmt::join(axes.precisions, ",")),
              "add --precision mixed-fp16");
}

void add_named_sizes(Flags& flags, ModelAxes* axes) {
  flags.add("--model-size", &axes->sizes, "small, medium, large, xl, 2.7B or 10B; see model --list",
            {.shows_default = true, .choices = names_of(transformer_sizes())});
  flags.add("--context-length", &axes->context_lengths, "tokens per sequence",
            {.shows_default = true});
  flags.add("--batch-size", &axes->batch_size, "sequences per step",
            {.shows_default = true, .range = FlagRange{1, 1 << 20}});
}

void add_overrides(Flags& flags, ModelAxes* axes) {
  for (const OverrideFlag& override : kOverrides)
    flags.add(override.flag, &(axes->overrides.*override.size),
              std::string(override.description) + ", instead of the size's own",
              {.range = FlagRange{1, 1 << 24}});
}

}  // namespace

void add_model_axes(Flags& flags, ModelAxes* axes) {
  add_named_sizes(flags, axes);
  flags.add("--precision", &axes->precisions,
            "fp32, tf32, mixed (bf16 autocast) or mixed-fp16 (with loss scaling)",
            {.shows_default = true, .choices = names_of(kModelPrecisions)});
  flags.add("--impl,--mode", &axes->modes,
            "rungs of the ladder: vanilla (eager), fused, flash, compiled",
            {.shows_default = true, .choices = names_of(modes())});
  flags.add("--scenario", &axes->scenarios, "forward, fwd-bwd, full-step",
            {.shows_default = true, .choices = names_of(kModelScenarios)});
  flags.add("--optimizer", &axes->optimizer, "variant of AdamW: cs336 or pytorch",
            {.shows_default = true, .choices = {"cs336", "pytorch"}});
  flags.add("--max-norm", &axes->max_norm,
            "full-step: scale gradients so that their norm over all parameters is at most this",
            {.check = {above_zero, "NORM"}});
  flags.add("--loss-scale", &axes->loss_scale,
            "mixed-fp16: dynamic (65536 at first), or a number that stays; 1 is none",
            {.shows_default = true, .check = {not_a_loss_scale, "SCALE"}});
  add_accumulate(flags, &axes->micro_batches);
  flags.add("--checkpoint-blocks", &axes->checkpoint_blocks,
            "steps with gradients: keep only what enters each run of so many blocks, and compute "
            "the rest again in backward; 0 keeps all",
            {.shows_default = true, .range = FlagRange{0, 1 << 20}});
  add_overrides(flags, axes);
}

void add_accumulate(Flags& flags, int64_t* micro_batches) {
  flags.add("--accumulate", micro_batches,
            "micro-batches that the batch of a step is cut into; their gradients add up",
            {.shows_default = true, .range = FlagRange{1, 1 << 16}});
}

void add_model_sizes(Flags& flags, ModelAxes* axes) {
  add_named_sizes(flags, axes);
  add_overrides(flags, axes);
}

std::vector<ModelWorkload> workloads_of(const ModelAxes& axes) {
  return expand_matrix(
      {.sizes = axes.sizes,
       .context_lengths = axes.context_lengths,
       .batch_size = axes.batch_size,
       .precisions = kModelPrecisions.find_all(axes.precisions, &ModelPrecisionInfo::precision),
       .modes = parsed(axes.modes, parse_mode),
       .micro_batches = axes.micro_batches,
       .checkpoint_blocks = axes.checkpoint_blocks,
       .overrides = axes.overrides});
}

std::vector<Scenario> scenarios_of(const ModelAxes& axes) {
  return distinct(kModelScenarios.find_all(axes.scenarios, &ScenarioInfo::scenario));
}

AdamWOptions optimizer_of(const ModelAxes& axes) {
  if (axes.max_norm > 0) expect_full_step(axes, "--max-norm");
  LossScaling scaling;
  if (axes.loss_scale != kDynamic) {
    expect_scaled_loss(axes);
    scaling = {.initial = number_in(axes.loss_scale), .growth_interval = 0};
  }
  return {.variant = parse_adamw_variant(axes.optimizer),
          .max_norm = axes.max_norm,
          .loss_scaling = scaling};
}

void expect_full_step(const ModelAxes& axes, const char* flag) {
  const std::vector<Scenario> chosen = scenarios_of(axes);
  if (!std::ranges::count(chosen, Scenario::full_step))
    throw Error(ErrorKind::usage,
                fmt::format("{} is about training, but --scenario {} takes no full step", flag,
                            fmt::join(axes.scenarios, ",")),
                "add --scenario full-step");
}

std::string to_command(const ModelOverrides& overrides) {
  std::string command;
  for (const OverrideFlag& override : kOverrides)
    if (const int64_t size = overrides.*override.size; size > 0)
      command += fmt::format(" {} {}", override.flag, size);
  return command;
}

std::string to_command(const ModelAxes& axes, ModelPrecision precision) {
  std::string command = fmt::format(" --batch-size {} --scenario", axes.batch_size);
  for (const std::string& scenario : axes.scenarios) command += " " + scenario;
  command += to_command(axes.overrides);
  if (axes.micro_batches > 1) command += fmt::format(" --accumulate {}", axes.micro_batches);
  if (axes.checkpoint_blocks > 0)
    command += fmt::format(" --checkpoint-blocks {}", axes.checkpoint_blocks);
  if (axes.optimizer != "cs336") command += " --optimizer " + axes.optimizer;
  if (axes.max_norm > 0) command += fmt::format(" --max-norm {}", axes.max_norm);
  if (axes.loss_scale != kDynamic && info(precision).scales_loss)
    command += " --loss-scale " + axes.loss_scale;
  return command;
}

std::string to_command(const ModelWorkload& workload) {
  return to_command(workload, info(workload.mode).name);
}

std::string to_command(const ModelWorkload& workload, std::string_view implementation) {
  // Overrides are among the shared flags.
  return fmt::format(" --model-size {} --context-length {} --precision {} --impl {}", workload.size,
                     workload.config.context_length, info(workload.precision).name, implementation);
}

void expect_positions(const Gemma3Config& config, int64_t context_length) {
  if (context_length > config.max_positions)
    throw Error(
        ErrorKind::usage,
        fmt::format("--context-length {} is more than the {} positions that {} was made for",
                    context_length, config.max_positions, config.name),
        "give a shorter one");
}

}  // namespace ridgeline

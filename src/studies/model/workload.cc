#include "studies/model/workload.h"

#include <fmt/format.h>

#include "base/sort_by.h"
#include "models/accumulate.h"

namespace ridgeline {
namespace {

constexpr ModelPrecisionInfo kPrecisions[] = {
    {ModelPrecision::fp32, "fp32", DType::f32, "everything in fp32"},
    {ModelPrecision::tf32, "tf32", DType::tf32,
     "stored as fp32, products on the tensor cores of a GPU in TF32"},
    {ModelPrecision::mixed, "mixed", DType::bf16,
     "bf16 autocast: products in bf16; weights, residual stream, norms, softmax and loss in fp32"},
    {.precision = ModelPrecision::mixed_fp16,
     .name = "mixed-fp16",
     .products = DType::f16,
     .summary = "the same with products in fp16, and a loss scale that follows the gradients",
     .scales_loss = true},
};

constexpr ScenarioInfo kScenarios[] = {
    {Scenario::forward, "forward", "forward", "logits"},
    {Scenario::forward_backward, "fwd-bwd", "fwd_bwd", "loss, and the gradient of every parameter"},
    {Scenario::full_step, "full-step", "full_step", "loss, gradients and the step of AdamW"},
};

TransformerConfig overridden(TransformerConfig config, const ModelOverrides& overrides) {
  if (!overrides.any()) return config;
  config.name = overrides.all() ? "custom" : "custom-" + config.name;
  const auto put = [](int64_t& size, int64_t wanted) {
    if (wanted > 0) size = wanted;
  };
  put(config.d_model, overrides.d_model);
  put(config.d_ff, overrides.d_ff);
  put(config.layers, overrides.layers);
  put(config.heads, overrides.heads);
  put(config.vocabulary, overrides.vocabulary);
  return config;
}

}  // namespace

const Choices<ModelPrecisionInfo> kModelPrecisions{"a precision of a model", kPrecisions};
const Choices<ScenarioInfo> kModelScenarios{"a scenario", kScenarios};

std::vector<ModelWorkload> expand_matrix(const ModelMatrix& matrix) {
  check_micro_batches(matrix.batch_size, matrix.micro_batches);
  std::vector<ModelWorkload> workloads;
  const std::vector<Mode> modes = distinct(matrix.modes);
  for (const ModelPrecision precision : matrix.precisions)
    for (const std::string& size : matrix.sizes)
      for (const int64_t context_length : matrix.context_lengths) {
        TransformerConfig config = overridden(transformer_config(size), matrix.overrides);
        config.batch_size = matrix.batch_size;
        config.context_length = context_length;
        transformer_parameters(config);  // throws for an invalid model
        for (const Mode mode : modes)
          workloads.push_back(
              {config, precision, mode, size, matrix.micro_batches, matrix.checkpoint_blocks});
      }
  return workloads;
}

Json workload_json(const ModelWorkload& workload) {
  const TransformerConfig& config = workload.config;
  Json json = {{"model_size", config.name},       {"context_length", config.context_length},
               {"batch_size", config.batch_size}, {"precision", info(workload.precision).name},
               {"d_model", config.d_model},       {"d_ff", config.d_ff},
               {"layers", config.layers},         {"heads", config.heads},
               {"vocabulary", config.vocabulary}, {"num_params", parameter_count(config)}};
  if (workload.micro_batches > 1) json["micro_batches"] = workload.micro_batches;
  if (workload.checkpoint_blocks > 0) json["checkpoint_blocks"] = workload.checkpoint_blocks;
  return json;
}

std::string label(const ModelWorkload& workload) {
  const TransformerConfig& config = workload.config;
  std::string how;
  if (workload.micro_batches > 1) how += fmt::format(" in {} parts", workload.micro_batches);
  if (workload.checkpoint_blocks > 0)
    how += fmt::format(" checkpoint={}", workload.checkpoint_blocks);
  return fmt::format("{} context={} batch={}{} {}, {}", config.name, config.context_length,
                     config.batch_size, how, info(workload.precision).name,
                     info(workload.mode).name);
}

double multiplied_parameters(const TransformerConfig& config) {
  return static_cast<double>(parameter_count(config) - config.vocabulary * config.d_model);
}

double model_forward_flops(const TransformerConfig& config) {
  const auto tokens = static_cast<double>(config.batch_size * config.context_length);
  const double attention = 4.0 * static_cast<double>(config.layers * config.context_length) *
                           static_cast<double>(config.d_model);
  return tokens * (2 * multiplied_parameters(config) + attention);
}

}  // namespace ridgeline

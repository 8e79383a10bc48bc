// Builds the calculator's models: parameters, FLOPs and saved activations per token.
#include <limits>

#include "graph/scope.h"
#include "studies/ddp/predict.h"
#include "studies/model/program.h"

namespace ridgeline {
namespace {

double elements(const Parameter& parameter) {
  double count = 1;
  for (const int64_t size : parameter.shape) count *= static_cast<double>(size);
  return count;
}

TrainedModel trained(const TransformerConfig& config, ModelPrecision precision, Device& device) {
  const ModelWorkload workload{
      .config = config, .precision = precision, .mode = Mode::compiled, .size = config.name};
  CompileOptions options = model_options(workload, device);
  options.budget = Bytes{std::numeric_limits<int64_t>::max()};  // nothing is recomputed
  const Executable step(model_trace(workload, Scenario::full_step, optimizer_of(workload, {})),
                        device, std::move(options));
  const auto tokens = static_cast<double>(config.batch_size * config.context_length);
  TransformerConfig one = config, two = config;
  one.layers = 1;
  two.layers = 2;
  return {.name = config.name,
          .parameters = parameter_count(config),
          .blocks = config.layers,
          .block_parameters = parameter_count(two) - parameter_count(one),
          .forward_flops_per_token = model_forward_flops(config) / tokens,
          .saved_bytes_per_token = static_cast<double>(model_memory(step).saved().count) / tokens,
          .compute_bytes = precision == ModelPrecision::fp32 ? 4.0 : 2.0};
}

}  // namespace

PredictedModel predicted_model(const LinearBlocks& sizes) {
  const double layer = static_cast<double>(sizes.d_model) * static_cast<double>(sizes.d_ff);
  const auto blocks = static_cast<size_t>(sizes.blocks);
  PredictedModel model{.in_fp32 = linear_block_model(sizes, 4),
                       .in_bf16 = linear_block_model(sizes, 2),
                       .tensors = std::vector<double>(2 * blocks, layer),
                       .units = std::vector<double>(blocks, 2 * layer),
                       .d_ff = sizes.d_ff,
                       .saved_by = "the inputs of both linear layers of each block"};
  model.in_fp32.name = model.in_bf16.name = kLinearBlocksSize;
  return model;
}

PredictedModel predicted_model(const TransformerConfig& config, Device& device) {
  return {.in_fp32 = trained(config, ModelPrecision::fp32, device),
          .in_bf16 = trained(config, ModelPrecision::mixed, device),
          .tensors = tensors_in_backward(config),
          .units = units_in_backward(config),
          .d_ff = config.d_ff,
          .saved_by = "what the compiled plan keeps, with flash attention"};
}

std::vector<double> tensors_in_backward(const TransformerConfig& config) {
  const std::vector<Parameter> parameters = transformer_parameters(config);
  std::vector<double> tensors;
  for (auto each = parameters.rbegin(); each != parameters.rend(); ++each)
    tensors.push_back(elements(*each));
  return tensors;
}

std::vector<double> units_in_backward(const TransformerConfig& config) {
  const std::vector<Parameter> parameters = transformer_parameters(config);
  std::vector<double> units;
  std::string_view last;
  for (auto each = parameters.rbegin(); each != parameters.rend(); ++each) {
    const std::string_view layer = layer_scope(each->name);
    if (units.empty() || layer != last) units.push_back(0);
    units.back() += elements(*each);
    last = layer;
  }
  return units;
}

}  // namespace ridgeline

#include "studies/precision/training.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"
#include "models/accumulate.h"
#include "studies/model/inputs.h"

namespace ridgeline {
namespace {

constexpr TrainingVariantInfo kVariants[] = {
    {TrainingVariant::fp32, "fp32", "everything in fp32", ModelPrecision::fp32},
    {TrainingVariant::bf16, "bf16", "bf16 autocast, whose range is fp32's", ModelPrecision::mixed},
    {TrainingVariant::fp16_scaled, "fp16-scaled", "fp16 autocast with dynamic loss scaling",
     ModelPrecision::mixed_fp16},
    {TrainingVariant::fp16_unscaled,
     "fp16-unscaled",
     "fp16 autocast without loss scaling",
     ModelPrecision::mixed_fp16,
     {.initial = 1, .growth_interval = 0}},
};

// Uploads a batch of random tokens; the target of each is the previous token.
void take_batch(const Executable& executable, Device& device, uint64_t seed, int64_t number) {
  const TransformerConfig& config = trained_model();
  NormalRandom random(seed, fmt::format("batch {}", number));
  std::vector<int32_t> tokens, targets;
  for (int64_t sequence = 0; sequence < config.batch_size; ++sequence)
    for (int64_t position = 0; position < config.context_length; ++position) {
      tokens.push_back(
          static_cast<int32_t>(random.next_bits() % static_cast<uint64_t>(config.vocabulary)));
      targets.push_back(tokens[tokens.size() - (position > 0 ? 2 : 1)]);
    }
  device.upload(executable.input("tokens"), tokens.data());
  device.upload(executable.input("targets"), targets.data());
}

double loss_of(const Executable& executable, Device& device) {
  device.synchronize();
  return read_values(device, executable.output("loss"))[0];
}

}  // namespace

const Choices<TrainingVariantInfo> kTrainingVariants{"a training", kVariants};

const TransformerConfig& trained_model() {
  static const TransformerConfig kConfig{.name = "tiny",
                                         .d_model = 16,
                                         .d_ff = 16,
                                         .layers = 1,
                                         .heads = 2,
                                         .vocabulary = 16,
                                         .batch_size = 32,
                                         .context_length = 16};
  return kConfig;
}

TrainingResult train(const TrainingRun& run, Device& device,
                     const std::function<bool()>& interrupted) {
  // The weight is part of the loss scale, so the optimizer divides gradients by it.
  constexpr double kWeight = micro_batch_weight(kMicroBatches);
  const TrainingVariantInfo& variant = info(run.variant);
  const TransformerConfig& config = trained_model();
  const ModelWorkload workload{config, variant.precision, run.mode};
  const AdamWOptions optimizer{.learning_rate = 0.01,
                               .weight_decay = 0,
                               .variant = AdamWVariant::pytorch,
                               .loss_scaling = variant.loss_scaling};
  const auto made = [&](Scenario scenario) {
    return Executable(model_trace(workload, scenario, optimizer), device,
                      model_options(workload, device));
  };
  Executable step = made(Scenario::full_step);
  step.prepare();
  ModelInputs inputs(device,
                     {.seed = run.seed, .loss_scale = kWeight * variant.loss_scaling.initial});
  inputs.fill(step, config);
  TrainingResult result;
  const bool scales_loss = step.has_input(kLossScaleInput);
  for (int64_t i = 1; i <= run.steps; ++i) {
    if (interrupted && interrupted()) throw Interrupted();
    take_batch(step, device, run.seed, i);
    inputs.set_step(step, i - result.loss_scale.skipped_steps, optimizer);
    step.run();
    result.losses.push_back(loss_of(step, device));
    if (scales_loss) result.loss_scale = read_loss_scale(step, device);
  }
  result.loss_scale.scale /= scales_loss ? kWeight : 1;

  // One more batch gives the loss and the gradients after the last step.
  Executable gradients = made(Scenario::forward_backward);
  gradients.prepare();
  inputs.fill(gradients, config);
  for (const Parameter& parameter : transformer_parameters(config)) {
    const std::vector<double> trained = read_values(device, step.input(parameter.name));
    const std::vector<float> values(trained.begin(), trained.end());
    inputs.upload_parameter(gradients, parameter.name, values);
  }
  take_batch(gradients, device, run.seed, run.steps + 1);
  gradients.run();
  result.losses.push_back(loss_of(gradients, device));
  if (scales_loss)
    result.underflow = find_underflow(
        gradients, device, [&] { gradients.run(); }, kWeight);
  return result;
}

}  // namespace ridgeline

// Trains a tiny model in fp32 and in 16 bits, with and without loss scaling: its losses, and the
// gradients that fp16 flushes to 0.
//
//   const TrainingResult scaled = train({.variant = TrainingVariant::fp16_scaled}, device);
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "studies/model/loss_scale.h"
#include "studies/model/workload.h"

namespace ridgeline {

enum class TrainingVariant : uint8_t { fp32, bf16, fp16_scaled, fp16_unscaled };

struct TrainingVariantInfo {
  TrainingVariant variant;
  std::string_view name;
  std::string_view summary;
  ModelPrecision precision;
  LossScaling loss_scaling = {};  // for a precision that scales its loss
};
extern const Choices<TrainingVariantInfo> kTrainingVariants;
inline const TrainingVariantInfo& info(TrainingVariant variant) {
  return kTrainingVariants[variant];
}

// The model learns to repeat the previous token, which attention has to find. Its loss has the
// weight of one of kMicroBatches micro-batches, so that gradients are as small as those of gradient
// accumulation over a batch that many times as large.
inline constexpr int64_t kMicroBatches = 256;
const TransformerConfig& trained_model();

struct TrainingRun {
  TrainingVariant variant = TrainingVariant::fp32;
  int64_t steps = 200;
  uint64_t seed = 42;
  Mode mode = Mode::vanilla;
};

struct TrainingResult {
  std::vector<double> losses;  // before each step, and after the last; without the weight
  LossScale loss_scale = {};
  std::optional<Underflow> underflow = {};  // in fp16, after the last step
};

// Throws Interrupted if `interrupted` returns true before a step.
TrainingResult train(const TrainingRun& run, Device& device,
                     const std::function<bool()>& interrupted = {});

}  // namespace ridgeline

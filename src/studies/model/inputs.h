// Reproducible inputs of a model: tokens, targets, parameters as they begin or as a file has them,
// moments of zero.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "studies/host_tensors.h"
#include "studies/model/program.h"

namespace ridgeline {

struct ModelInputOptions {
  uint64_t seed = 42;
  // Parameters of the last model stay in host memory up to this much, as drawing billions of them
  // takes longer than running the model. Nothing where the device's memory is the host's.
  Bytes keep = {};
  std::filesystem::path weights = {};  // where the parameters are from; empty: drawn by the seed
  double loss_scale = LossScaling{}.initial;  // before the first step
};

// What may stay there: beside a GPU a quarter of the host's memory, which is free; on a CPU
// nothing, as parameters would be there twice.
Bytes room_to_keep(const Device& device);

// Throws a usage error if the file does not hold the parameters of this model.
void check_model_weights(const std::filesystem::path& path, const TransformerConfig& config);

class ModelInputs {
 public:
  ModelInputs(Device& device, ModelInputOptions options);

  // Fills every input of a prepared executable; the optimizer stands before its first step.
  void fill(const Executable& executable, const TransformerConfig& config);

  // The same, but nothing is all alike: what begins as ones scatters around 1, and every other
  // element of the moments is not 0. For looking at kernels, to which it must matter what they
  // read.
  void fill_unevenly(const Executable& executable, const TransformerConfig& config);

  // Replaces a parameter, and the copy of it that products read.
  void upload_parameter(const Executable& executable, const std::string& name,
                        std::span<const float> values);

  // The optimizer's scalars of step `step`, counted from 1; nothing where there is no optimizer.
  void set_step(const Executable& executable, int64_t step, const AdamWOptions& optimizer);

  // Writes the parameters as they are now, in fp32, whatever precision products read them in.
  void save_weights(const Executable& executable, const TransformerConfig& config, int64_t steps,
                    const std::filesystem::path& path) const;

  // Writes `tokens` [batch, context] and the `logits` [batch, context, vocabulary] that the last
  // forward made of them, all as fp32.
  void save_logits(const Executable& executable, const TransformerConfig& config,
                   const std::filesystem::path& path) const;

  // Random ids below the vocabulary, [batch * context]; `name` is "tokens" or "targets".
  std::vector<int32_t> ids(const TransformerConfig& config, const std::string& name) const;

 private:
  using TakeValues = std::function<void(const Parameter&, std::span<const float>)>;

  void fill_parameters(const Executable& executable, const TransformerConfig& config);
  // Draws the parameters, or has them still.
  void draw(const TransformerConfig& config, const RangeRunner& in_parallel,
            const TakeValues& take);
  void upload_parameter(const Executable& executable, const std::string& name,
                        std::span<const float> values, const RangeRunner& in_parallel);
  // Repeats `values`, fp32 like the view.
  void fill_with(const TensorView& view, std::span<const float> values);

  Device& device_;
  ModelInputOptions options_;
  std::string kept_key_;
  std::vector<std::vector<float>> kept_;  // in the order of transformer_parameters()
};

}  // namespace ridgeline

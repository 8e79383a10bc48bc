// Reproducible inputs of a model: tokens, targets, parameters drawn by a seed or read from a file,
// and moments of zero.
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
  // The parameters of the last model stay in host memory if they fit into this, because drawing
  // billions of them takes longer than running the model.
  Bytes keep = {};
  std::filesystem::path weights = {};         // a file of parameters; empty: drawn by the seed
  double loss_scale = LossScaling{}.initial;  // before the first step
};

// Returns a value for `keep`: a quarter of the available host memory beside a GPU; 0 on a CPU,
// which would hold the parameters twice.
Bytes host_cache_budget(const Device& device);

// Throws a usage error if the file does not hold the parameters of this model.
void check_model_weights(const std::filesystem::path& path, const TransformerConfig& config);

class ModelInputs {
 public:
  ModelInputs(Device& device, ModelInputOptions options);

  // Fills every input of a prepared executable; the optimizer is before its first step.
  void fill(const Executable& executable, const TransformerConfig& config);

  // Like fill(), but without constant tensors, so that kernel checks notice wrong reads: parameters
  // that are initialised to 1 scatter around it, and every other element of the moments is not 0.
  void fill_unevenly(const Executable& executable, const TransformerConfig& config);

  // Replaces a parameter and its copy that products read.
  void upload_parameter(const Executable& executable, const std::string& name,
                        std::span<const float> values);

  // Sets the optimizer's scalars for step `step`, counted from 1; no-op without an optimizer.
  void set_step(const Executable& executable, int64_t step, const AdamWOptions& optimizer);

  // Writes the current parameters in fp32, independent of the precision of products.
  void save_weights(const Executable& executable, const TransformerConfig& config, int64_t steps,
                    const std::filesystem::path& path) const;

  // Writes `tokens` [batch, context] and the `logits` [batch, context, vocabulary] of the last
  // forward, both as fp32.
  void save_logits(const Executable& executable, const TransformerConfig& config,
                   const std::filesystem::path& path) const;

  // Random ids below the vocabulary, [batch * context]; `name` is "tokens" or "targets".
  std::vector<int32_t> ids(const TransformerConfig& config, const std::string& name) const;

 private:
  using TakeValues = std::function<void(const Parameter&, std::span<const float>)>;

  void fill_parameters(const Executable& executable, const TransformerConfig& config);
  // Draws the parameters, or reuses the kept ones.
  void draw(const TransformerConfig& config, const RangeRunner& in_parallel,
            const TakeValues& take);
  void upload_parameter(const Executable& executable, const std::string& name,
                        std::span<const float> values, const RangeRunner& in_parallel);
  // Fills the fp32 view with repetitions of `values`.
  void fill_with(const TensorView& view, std::span<const float> values);

  Device& device_;
  ModelInputOptions options_;
  std::string kept_key_;
  std::vector<std::vector<float>> kept_;  // in the order of transformer_parameters()
};

}  // namespace ridgeline

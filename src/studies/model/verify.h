// Checks that a model computes the right values: the expected initial loss, equal values from
// compiled and vanilla at seeded samples of logits and gradients, and gradient clipping.
// kernel_check.h checks kernels one by one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "studies/model/program.h"

namespace ridgeline {

// Values from one step that starts with the initial parameters.
struct ModelSample {
  bool is_drawn = true;             // the seed drew the parameters, so that the loss is known
  double loss = 0;                  // in the scenario forward: over the sampled tokens
  std::vector<double> logits = {};  // forward: those of the sampled tokens
  std::map<std::string, std::vector<double>> gradients = {};  // other scenarios, by parameter
  // Full step with clipping or a scaled loss: the norm before clipping, as are the gradients. With
  // clipping: the relative error of the norm after it, which the moments show.
  std::optional<double> gradient_norm = {}, clipping_error = {};
};

// Samples the first step.
class ModelSampler {
 public:
  // `targets` are the ids that the loss compares with.
  ModelSampler(const Executable& executable, const Device& device, const TransformerConfig& config,
               std::vector<int32_t> targets, uint64_t seed, const AdamWOptions& optimizer);

  ModelSample after_run() const;

 private:
  struct Places {  // sampled elements
    std::string parameter;
    std::vector<int64_t> elements;  // none: all
  };

  void sample_logits(ModelSample& sample) const;
  void sample_gradients(ModelSample& sample) const;
  std::vector<double> values(const Places& places, const std::string& output) const;
  // The norm over all parameters of the gradients that reached the optimizer.
  double clipped_norm() const;

  const Executable& executable_;
  const Device& device_;
  const TransformerConfig& config_;
  std::vector<int32_t> targets_;
  AdamWOptions optimizer_;
  std::vector<int64_t> tokens_;
  std::vector<Places> places_;
};

bool has_finite_gradients(const ModelSample& sample);

// The loss of random targets at initialisation: logits are normal, so it is log V plus half their
// variance.
struct ExpectedLoss {
  double loss = 0;
  double tolerance = 0;
};
ExpectedLoss expected_loss(const TransformerConfig& config, int64_t tokens);

// Returns the relative error of the settings that the executable's updates read, against
// `optimizer` in step `step`; infinite if a setting differs that is not rounded.
double update_settings_error(const Executable& executable, const Device& device,
                             const AdamWOptions& optimizer, int64_t step);

// Adds the comparisons to `verification`, as "fwd_bwd.loss" and so on. Without a reference the
// sample must have the expected loss and be finite.
void compare_samples(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample,
                     const std::optional<ModelSample>& reference, Verification& verification);

}  // namespace ridgeline

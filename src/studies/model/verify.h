// Whether a model computes what it should: the loss that its beginning implies, the same values
// compiled as vanilla, at seeded samples of logits and gradients, and clipping that happened.
// Kernels are checked one by one besides: kernel_check.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "studies/model/program.h"

namespace ridgeline {

// What one run of one step showed, from parameters as they begin.
struct ModelSample {
  bool is_drawn = true;             // the parameters: by the seed, so that their loss is known
  double loss = 0;                  // of the forward scenario: over the sampled tokens
  std::vector<double> logits = {};  // forward: of the sampled tokens
  std::map<std::string, std::vector<double>> gradients = {};  // of the others, by parameter
  // Full step with clipping or a scaled loss: the norm before it, as are the gradients; with
  // clipping how far the norm that the moments show is from the one that it makes of it, relative.
  std::optional<double> gradient_norm = {}, clipping_error = {};
};

// Takes the sample of a first step.
class ModelSampler {
 public:
  // `targets`: the ids that the loss compares with.
  ModelSampler(const Executable& executable, const Device& device, const TransformerConfig& config,
               std::vector<int32_t> targets, uint64_t seed, const AdamWOptions& optimizer);

  ModelSample after_run() const;

 private:
  struct Places {  // elements that are looked at
    std::string parameter;
    std::vector<int64_t> elements;  // none: all
  };

  void sample_logits(ModelSample& sample) const;
  void sample_gradients(ModelSample& sample) const;
  std::vector<double> values(const Places& places, const std::string& output) const;
  // Of the gradients that reached the optimizer, over all parameters.
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

// The loss of random targets at the beginning: logits are normal, and so log V plus half of their
// variance.
struct ExpectedLoss {
  double loss = 0;
  double tolerance = 0;
};
ExpectedLoss expected_loss(const TransformerConfig& config, int64_t tokens);

// How far from `optimizer` in step `step` the settings are that the executable's updates read:
// relative, infinite where one differs that does not round.
double update_settings_error(const Executable& executable, const Device& device,
                             const AdamWOptions& optimizer, int64_t step);

// Adds what was compared to `verification`, as "fwd_bwd.loss" and so on. Without a reference the
// sample is held against the expected loss, and has to be finite.
void compare_samples(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample,
                     const std::optional<ModelSample>& reference, Verification& verification);

}  // namespace ridgeline

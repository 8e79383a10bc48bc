// Whether a model computes what it should: the loss that its beginning implies, and the same values
// compiled as vanilla, at seeded samples of logits, gradients and updated weights.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "studies/model_executable.h"

namespace ridgeline {

// What one run of one step showed, from parameters as they begin.
struct ModelSample {
  bool is_drawn = true;             // the parameters: by the seed, so that their loss is known
  double loss = 0;                  // of the forward scenario: over the sampled tokens
  std::vector<double> logits = {};  // forward: of the sampled tokens
  std::map<std::string, std::vector<double>> gradients = {};  // of the others, by parameter
  double gradient_norm = 0;    // full step with clipping: before it, as are the gradients
  double optimizer_error = 0;  // full step: of updated weights, in units of the learning rate
};

// Takes the sample of one step: construct it before the run, since the step overwrites weights.
class ModelSampler {
 public:
  // `targets`: the ids that the loss compares with.
  ModelSampler(const ModelExecutable& executable, const Device& device,
               const TransformerConfig& config, std::vector<int32_t> targets, uint64_t seed,
               const AdamWOptions& optimizer);

  ModelSample after_run() const;

 private:
  struct Place {  // an element that is looked at
    std::string parameter;
    int64_t element = 0;
    double before = 0;  // of a full step: the weight
  };

  void sample_logits(ModelSample& sample) const;
  void sample_gradients(ModelSample& sample) const;

  const ModelExecutable& executable_;
  const Device& device_;
  const TransformerConfig& config_;
  std::vector<int32_t> targets_;
  AdamWOptions optimizer_;
  std::vector<int64_t> tokens_;
  std::vector<Place> places_;
};

// The loss of random targets at the beginning: logits are normal, and so log V plus half of their
// variance.
struct ExpectedLoss {
  double loss = 0;
  double tolerance = 0;
};
ExpectedLoss expected_loss(const TransformerConfig& config, int64_t tokens);

// Adds what was compared to `verification`, as "fwd_bwd.loss" and so on. Without a reference the
// sample is held against the expected loss, and has to be finite.
void compare_samples(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample,
                     const std::optional<ModelSample>& reference, Verification& verification);

}  // namespace ridgeline

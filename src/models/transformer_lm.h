// TransformerLM, the reference model of Stanford's CS336, as a graph:
//
//   const TransformerConfig config = transformer_config("small");
//   const Graph graph = training_graph(config, {.scenario = Scenario::full_step});
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/adamw.h"
#include "models/attention.h"
#include "models/layers.h"

namespace ridgeline {

struct TransformerConfig {
  std::string name = "small";
  int64_t d_model = 768;
  int64_t d_ff = 3072;
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t vocabulary = 10000;
  int64_t batch_size = 4;
  int64_t context_length = 512;
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;

  int64_t head_dim() const { return d_model / heads; }
};

// The sizes that have names: small, medium, large, xl, 2.7B, 10B.
std::span<const TransformerConfig> transformer_sizes();
// Throws a usage error that lists the names.
TransformerConfig transformer_config(std::string_view name);

// Names, shapes and initial values, in the order of the reference. Throws a usage error for an
// invalid configuration.
std::vector<Parameter> transformer_parameters(const TransformerConfig& config);
int64_t parameter_count(const TransformerConfig& config);

// Of one layer: [batch, heads, tokens, head_dim] each.
struct KeyValueCache {
  Tensor keys, values;
};

// Logits [batch * context, vocabulary] of i32 tokens [batch, context]. `weights` in the order of
// transformer_parameters(). With `caches`, one per layer, the tokens are the newest ones: they see
// the whole cache, including their own keys and values, without a mask.
Tensor transformer_logits(const TransformerConfig& config, const Tensor& tokens,
                          std::span<const Tensor> weights, const RopeTables& rope_tables,
                          AttentionForm form, std::span<const KeyValueCache> caches = {});

enum class InferencePhase {
  prefill,  // all tokens of the context at once
  decode,   // one more token of every sequence, with a cache that then holds the context
};

struct InferenceOptions {
  InferencePhase phase = InferencePhase::prefill;
  AttentionForm attention = AttentionForm::plain;
  DType dtype = DType::f32;  // of parameters, activations and caches
};

// Inputs: "tokens", i32 [batch, context or 1], "rope.cos" and "rope.sin" of their positions, every
// parameter; for decode "layers.N.keys" and "layers.N.values". Outputs: "logits" of all tokens; for
// decode the new "layers.N.key" and "layers.N.value", which belong in the cache.
Graph inference_graph(const TransformerConfig& config, const InferenceOptions& options);

enum class Scenario {
  forward,           // "logits" alone
  forward_backward,  // "loss", and the gradient of every parameter p as "d_p"
  full_step,         // "loss", and the optimizer's step, which replaces parameters and moments
};

struct TrainingOptions {
  Scenario scenario = Scenario::full_step;
  AttentionForm attention = AttentionForm::plain;
  AdamWOptions optimizer = {};
  // Gradients are those of the loss times this: with 1 / n, sums over n equal batches are those of
  // the mean over all of them.
  double loss_weight = 1;
  // Equal parts of the batch that go through forward and backward in turn; see accumulate().
  // Ignored in the forward scenario, which has no gradients.
  int64_t micro_batches = 1;
  // Applied to the forward graph before its gradient is taken: autocast, flash, pack. Must keep the
  // names of outputs, and all parameters, possibly as parts of other inputs.
  std::function<Graph(const Graph&)> forward_pass = {};
};

// Inputs: "tokens" and, for a loss, "targets", i32 [batch, context]; "rope.cos" and "rope.sin",
// [context, head_dim / 2]; every parameter under its name; for a scaled loss the state of
// its scale, kLossScaleInput, by which gradients are multiplied; those of add_adamw_step().
// Outputs: those of the scenario and of add_adamw_step(). Stages: "forward" and "backward", of each
// micro-batch, and "optimizer". Logits are an output of the forward scenario only: training
// releases them as soon as they are used.
Graph training_graph(const TransformerConfig& config, const TrainingOptions& options);

}  // namespace ridgeline

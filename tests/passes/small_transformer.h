// The forward graph of a TransformerLM that the interpreter can run in a moment.
#pragma once

#include "models/loss.h"
#include "models/transformer_lm.h"

namespace ridgeline::testing {

inline const TransformerConfig kTiny = {.d_model = 16,
                                        .d_ff = 24,
                                        .layers = 3,
                                        .heads = 2,
                                        .vocabulary = 11,
                                        .batch_size = 2,
                                        .context_length = 5};

// Outputs "logits" and "loss"; inputs as those of training_graph().
inline Graph forward_with_loss(const TransformerConfig& config, AttentionForm form) {
  Graph graph;
  const TensorType ids{DType::i32, {config.batch_size, config.context_length}};
  const Tensor tokens = input(graph, "tokens", ids);
  const TensorType table{DType::f32, {config.context_length, config.head_dim() / 2}};
  const RopeTables tables{input(graph, "rope.cos", table), input(graph, "rope.sin", table)};
  std::vector<Tensor> weights;
  for (const Parameter& each : transformer_parameters(config))
    weights.push_back(parameter(graph, each.name, {DType::f32, each.shape}));
  const Tensor logits = transformer_logits(config, tokens, weights, tables, form);
  graph.mark_output("logits", logits.value());
  const Tensor targets = reshape(input(graph, "targets", ids), {logits.shape()[0]});
  graph.mark_output("loss", cross_entropy(logits, targets).value());
  return graph;
}

}  // namespace ridgeline::testing

// Training steps for tests of ranks: sizes that no number of ranks divides, a vector, a
// transformer.
#pragma once

#include "autodiff/gradient.h"
#include "compile/distributed_ranks.h"
#include "models/transformer_lm.h"
#include "passes/autocast.h"
#include "support/tiny_transformer.h"

namespace ridgeline::testing {

// A step, or gradients, of a graph that ends with its loss.
inline Graph step_of(Graph graph, bool gradients_alone, double loss_weight,
                     const Rewrite& forward) {
  if (forward) graph = forward(graph);
  std::vector<TrainedParameter> trained;
  std::vector<Tensor> sources;
  for (Value value : graph.inputs())
    if (graph.input_info(value).role == Role::parameter) sources.emplace_back(graph, value);
  graph.begin_stage("backward");
  const Tensor loss(graph, graph.outputs()[0].value);
  const Cotangent cotangent{loss, expand(scalar(loss, loss_weight), loss.shape())};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  for (size_t i = 0; i < sources.size(); ++i) trained.push_back({sources[i], gradients[i]});
  if (gradients_alone) {
    for (const TrainedParameter& each : trained)
      mark_outputs(gradient_name(""), each.value, each.gradient);
    return graph;
  }
  graph.begin_stage("optimizer");
  add_adamw_step(graph, trained, kOptimizer);
  return graph;
}

// Sizes that no number of ranks divides, a weight that is used twice, a bias whose gradient is also
// the gradient of something else, a parameter whose gradient is one number, and one that the loss
// does not depend on.
inline Graph uneven_step(bool gradients_alone, double loss_weight, const Rewrite& forward) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 5}});
  const Tensor tied = parameter(graph, "tied", {DType::f32, {7, 5}});
  const Tensor bias = parameter(graph, "bias", {DType::f32, {4, 7}});
  parameter(graph, "unused", {DType::f32, {3}});
  const Tensor hidden = matmul(x, transpose(tied)) + bias;
  const Tensor y = matmul(hidden, tied);
  const Tensor counted = parameter(graph, "counted", {DType::f32, {11}});
  const Tensor total = reshape(sum(counted, {0}), {1, 1});
  const Tensor loss = (mean(y * y, {0, 1}) + total * 0.25).named("loss");
  graph.mark_output("loss", loss.value());
  return step_of(std::move(graph), gradients_alone, loss_weight, forward);
}

// Nothing to be made flat: the update is the first node of its stage.
inline Graph vector_step(bool gradients_alone, double loss_weight, const Rewrite& forward) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {5}});
  const Tensor y = x * parameter(graph, "scale", {DType::f32, {5}});
  graph.mark_output("loss", mean(y * y, {0}).named("loss").value());
  return step_of(std::move(graph), gradients_alone, loss_weight, forward);
}

inline Graph transformer_step(bool gradients_alone, double loss_weight, const Rewrite& forward) {
  return training_graph(
      tiny_transformer(),
      {.scenario = gradients_alone ? Scenario::forward_backward : Scenario::full_step,
       .optimizer = kOptimizer,
       .loss_weight = loss_weight,
       .forward_pass = forward});
}

// The same with products in bf16.
inline Graph mixed_transformer_step(bool gradients_alone, double loss_weight,
                                    const Rewrite& forward) {
  return transformer_step(gradients_alone, loss_weight, [&](const Graph& traced) {
    return forward(autocast(traced, DType::bf16));
  });
}

}  // namespace ridgeline::testing

#include "models/toy_model.h"

#include "autodiff/gradient.h"
#include "models/adamw.h"
#include "models/layers.h"
#include "models/loss.h"

namespace ridgeline {

Graph toy_training_graph(const ToyConfig& config,
                         const std::function<Graph(const Graph&)>& forward_pass) {
  constexpr double kNormEpsilon = 1e-5;
  Graph graph;
  const auto weight = [&](const char* name, const Shape& shape) {
    return parameter(graph, name, {DType::f32, shape});
  };
  const Tensor x = input(graph, "x", {DType::f32, {config.examples, config.in_features}});
  const Tensor targets = input(graph, "targets", {DType::i32, {config.examples}});
  const Tensor fc1 =
      linear(x, weight("fc1.weight", {config.hidden, config.in_features})).named("fc1");
  const Tensor relu = maximum(fc1, scalar(fc1, 0));
  const LayerNormWeights norm{weight("ln.weight", {config.hidden}),
                              weight("ln.bias", {config.hidden})};
  const Tensor ln = layer_norm(relu, norm, kNormEpsilon).named("ln");
  const Tensor logits =
      linear(ln, weight("fc2.weight", {config.out_features, config.hidden})).named("logits");
  graph.mark_output("loss", cross_entropy(logits, targets).named("loss").value());
  if (forward_pass) graph = forward_pass(graph);

  const Tensor loss(graph, graph.outputs()[0].value);
  std::vector<Tensor> parameters;
  for (const Value value : graph.inputs())
    if (graph.input_info(value).role == Role::parameter) parameters.emplace_back(graph, value);
  graph.begin_stage("backward");
  const Cotangent cotangent{loss, expand(scalar(loss, 1), loss.shape())};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, parameters);
  for (size_t i = 0; i < parameters.size(); ++i)
    mark_outputs(gradient_name(""), parameters[i], gradients[i]);
  verify(graph);
  return graph;
}

}  // namespace ridgeline

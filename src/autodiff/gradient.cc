#include "autodiff/gradient.h"

#include <fmt/format.h>

#include "autodiff/rules.h"
#include "base/error.h"

namespace ridgeline {
namespace {

// Which values change with a source, but for those that are no numbers and so change in steps;
// indexed by Graph::index.
std::vector<bool> depends_on(const Graph& graph, std::span<const Tensor> sources) {
  std::vector<bool> depends(graph.value_count(), false);
  for (const Tensor& source : sources) depends[graph.index(source.value())] = true;
  for (const Node& node : graph.nodes()) {
    bool any = false;
    for (Value input : node.inputs) any = any || depends[graph.index(input)];
    for (uint32_t output = 0; any && output < node.outputs.size(); ++output)
      depends[node.first_value + output] = is_floating(node.outputs[output].dtype);
  }
  return depends;
}

}  // namespace

std::vector<Tensor> gradient(std::span<const Cotangent> cotangents,
                             std::span<const Tensor> sources) {
  if (cotangents.empty())
    throw Error(ErrorKind::usage, "gradient() needs at least one output with its gradient");
  Graph& graph = cotangents[0].output.graph();
  const std::string scope_before = graph.current_scope();
  const auto forward_nodes = static_cast<uint32_t>(graph.nodes().size());
  const std::vector<bool> depends = depends_on(graph, sources);

  std::vector<Tensor> arrived(graph.value_count());
  const auto arrive = [&](Value at, const Tensor& gradient) {
    Tensor& sum = arrived[graph.index(at)];
    const Tensor fitted = sum_to(gradient, graph.type(at).shape);
    sum = sum ? sum + fitted : fitted;
  };
  for (const Cotangent& cotangent : cotangents) {
    if (cotangent.gradient.type() != cotangent.output.type())
      throw Error(
          ErrorKind::usage,
          fmt::format("a gradient of type {} was given for an output of type {}",
                      to_string(cotangent.gradient.type()), to_string(cotangent.output.type())));
    arrive(cotangent.output.value(), cotangent.gradient);
  }

  for (uint32_t number = forward_nodes; number-- > 0;) {
    // A copy: the rules append to the graph, which may move its nodes.
    const Node node = graph.nodes()[number];
    const GradientRule rule = gradient_rule(node.op);
    const uint32_t index = node.first_value;
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      if (depends[index + output] && arrived[index + output] && !node.inputs.empty() &&
          (rule == nullptr || output > 0))
        throw Error(ErrorKind::usage,
                    fmt::format("'{}', a result of {}, has no gradient",
                                graph.name({number, output}), info(node.op).name));
    if (!depends[index] || !arrived[index] || node.inputs.empty()) continue;
    GradientContext context{node, {}, Tensor(graph, {number, 0}), arrived[index], {}};
    bool any_wanted = false;
    for (Value input : node.inputs) {
      context.inputs.emplace_back(graph, input);
      context.wanted.push_back(depends[graph.index(input)]);
      any_wanted = any_wanted || context.wanted.back();
    }
    if (!any_wanted) continue;
    // A gradient belongs to the part of the model that its node belongs to.
    graph.enter_scope(std::string(graph.scope_path(node)));
    const std::vector<Tensor> gradients = rule(context);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i] && context.wanted[i]) arrive(node.inputs[i], gradients[i]);
  }

  graph.enter_scope(scope_before);

  std::vector<Tensor> result;
  for (const Tensor& source : sources) {
    const Tensor& found = arrived[graph.index(source.value())];
    result.push_back(found ? found : expand(scalar(source, 0), source.shape()));
  }
  return result;
}

}  // namespace ridgeline

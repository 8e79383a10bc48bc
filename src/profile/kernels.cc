#include "profile/kernels.h"

#include <algorithm>

namespace ridgeline {
namespace {

class Describer {
 public:
  explicit Describer(const Executable& executable)
      : graph_(executable.graph()), costs_(node_costs(graph_)), stages_(graph_.stages()) {}

  // The kernel gets the node, scope and phase of the decider with the most FLOPs.
  ProfiledKernel describe(size_t number, const std::vector<uint32_t>& nodes,
                          const std::vector<uint32_t>& deciders) const {
    ProfiledKernel kernel{.number = number, .node = deciders.front()};
    for (const uint32_t node : deciders)
      if (costs_[node].flops > costs_[kernel.node].flops) kernel.node = node;
    for (const uint32_t node : nodes) {
      const std::string& scope = graph_.scope_path(graph_.nodes()[node]);
      if (std::ranges::find(kernel.scopes, scope) == kernel.scopes.end())
        kernel.scopes.push_back(scope);
    }
    const Node& decider = graph_.nodes()[kernel.node];
    kernel.node_name = graph_.name({kernel.node, 0});
    kernel.label = info(decider.op).name;
    kernel.scope = graph_.scope_path(decider);
    kernel.phase = stages_[graph_.stage_of(kernel.node)].name;
    kernel.dtype =
        decider.inputs.empty() ? decider.outputs[0].dtype : graph_.type(decider.inputs[0]).dtype;
    return kernel;
  }

  ProfiledKernel of_node(uint32_t node) const {
    ProfiledKernel kernel = describe(node, {node}, {node});
    kernel.category = category_of(graph_, graph_.nodes()[node]);
    kernel.cost = costs_[node];
    return kernel;
  }

  ProfiledKernel of_group(size_t number, const PlannedKernel& planned) const {
    const Group& group = planned.group;
    std::vector<uint32_t> nodes;
    if (group.kind == GroupKind::library) nodes.push_back(group.node);
    for (const FusedStep& step : group.kernel.steps)
      if (step.kind == FusedStep::Kind::compute || step.kind == FusedStep::Kind::fold)
        nodes.push_back(step.value.node);
    if (nodes.empty()) nodes.push_back(group.node);  // it only copies
    // The folds of a softmax or a norm decide, whatever else is fused with them.
    const Category category = category_of(graph_, group);
    std::vector<uint32_t> folds;
    for (const FusedStep& step : group.kernel.steps)
      if (step.kind == FusedStep::Kind::fold &&
          category_of(graph_, graph_.node(step.value)) == category)
        folds.push_back(step.value.node);
    ProfiledKernel kernel = describe(number, nodes, folds.empty() ? nodes : folds);
    if (group.kind != GroupKind::library) kernel.label = group.kernel.name;
    kernel.category = category;
    kernel.cost = planned.cost;
    return kernel;
  }

 private:
  const Graph& graph_;
  std::vector<Cost> costs_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<ProfiledKernel> profiled_kernels(const Executable& executable,
                                             const PredictKernel& predict) {
  const Describer describer(executable);
  std::vector<ProfiledKernel> kernels;
  if (const Plan* plan = executable.plan())
    for (size_t i = 0; i < plan->kernels.size(); ++i)
      kernels.push_back(describer.of_group(i, plan->kernels[i]));
  else
    for (const Step& step : executable.schedule()->steps)
      if (runs_kernel(executable.graph(), executable.schedule()->layouts, step.node))
        kernels.push_back(describer.of_node(step.node));
  if (predict)
    for (ProfiledKernel& kernel : kernels) kernel.predicted_us = predict(kernel);
  return kernels;
}

std::optional<double> least_us(const Cost& cost, const Roofs& roofs) {
  std::optional<double> seconds;
  const auto at_least = [&](double amount, double rate) {
    if (rate > 0) seconds = std::max(seconds.value_or(0), amount / rate);
  };
  at_least(cost.flops, roofs.flops_per_s);
  at_least(cost.bytes, roofs.bytes_per_s);
  if (!seconds) return std::nullopt;
  return 1e6 * *seconds;
}

}  // namespace ridgeline

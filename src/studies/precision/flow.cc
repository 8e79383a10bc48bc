#include "studies/precision/flow.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "base/error.h"
#include "compile/lower.h"
#include "models/toy_model.h"
#include "models/transformer_lm.h"

namespace ridgeline {
namespace {

constexpr FlowModelInfo kModels[] = {
    {FlowModel::toy, "toy", "linear, ReLU, layer norm, linear: ToyModel of the assignment"},
    {FlowModel::transformer, "transformer", "TransformerLM with AdamW; its size changes no dtype"},
};

// Selects the values of a stage; the first of them names the tensor.
struct StageRule {
  const char* stage;
  std::function<bool(const Graph&, Value)> holds;
};

auto has_role(Role role) {
  return [role](const Graph& graph, Value value) {
    return graph.node(value).op == Op::input && graph.input_info(value).role == role;
  };
}

auto is_named(std::string name) {
  return [name = std::move(name)](const Graph& graph, Value value) {
    return graph.node(value).name == name;
  };
}

auto is_op(Op op, std::string scope) {
  return [op, scope = std::move(scope)](const Graph& graph, Value value) {
    const Node& node = graph.node(value);
    return node.op == op && graph.scope_path(node).starts_with(scope) &&
           graph.stage_of(value.node) == 0;
  };
}

// Whether a value is an output whose name begins with "d_".
bool is_gradient(const Graph& graph, Value value) {
  for (const Output& output : graph.outputs())
    if (output.value == value && output.name.starts_with("d_")) return true;
  return false;
}

std::string tensor_name(const Graph& graph, Value value) {
  for (const Output& output : graph.outputs())
    if (output.value == value) return output.name;
  return graph.node(value).op == Op::input ? graph.input_info(value).name : graph.name(value);
}

FlowStage find_stage(const Graph& graph, const StageRule& rule) {
  std::optional<FlowStage> found;
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Value value{number, 0};
    if (!rule.holds(graph, value)) continue;
    const DType dtype = graph.type(value).dtype;
    if (!found) found = {rule.stage, tensor_name(graph, value), dtype};
    if (found->dtype != dtype)
      throw Error(ErrorKind::internal,
                  fmt::format("the stage '{}' has tensors in {} and {}", rule.stage,
                              info(found->dtype).name, info(dtype).name));
  }
  if (!found)
    throw Error(ErrorKind::internal, fmt::format("the graph has no stage '{}'", rule.stage));
  return *found;
}

TransformerConfig small_transformer() {
  return {.name = "flow",
          .d_model = 16,
          .d_ff = 32,
          .layers = 2,
          .heads = 2,
          .vocabulary = 32,
          .batch_size = 1,
          .context_length = 8};
}

}  // namespace

const Choices<FlowModelInfo> kFlowModels{"a model", kModels};

std::vector<FlowStage> stages_of(const DtypeFlow& flow) {
  const CompileOptions options{.mode = Mode::vanilla, .products = flow.autocast};
  std::vector<FlowStage> stages;
  const auto add = [&](const Trace& trace, const std::vector<StageRule>& rules) {
    const Graph graph = lower(trace, options).graph;
    for (const StageRule& rule : rules) stages.push_back(find_stage(graph, rule));
  };
  if (flow.model == FlowModel::toy) {
    add([](const Rewrite& forward) { return toy_training_graph({}, forward); },
        {{"parameters", has_role(Role::parameter)},
         {"first linear", is_named("fc1")},
         {"norm", is_named("ln")},
         {"logits", is_named("logits")},
         {"loss", is_named("loss")},
         {"gradients", is_gradient}});
    return stages;
  }
  const auto trace = [](Scenario scenario) -> Trace {
    return [scenario](const Rewrite& forward) {
      return training_graph(small_transformer(), {.scenario = scenario, .forward_pass = forward});
    };
  };
  add(trace(Scenario::forward_backward),
      {{"parameters", has_role(Role::parameter)},
       {"embedded tokens", is_named("embedded")},
       {"norm", is_named("layers.0.ln1")},
       {"first linear", is_op(Op::matmul, "layers.0.attention.projections")},
       {"attention softmax", is_op(Op::softmax, "layers.0")},
       {"residual stream", is_named("layers.0.ffn_residual")},
       {"logits", is_named("logits")},
       {"loss", is_named("loss")},
       {"gradients", is_gradient}});
  add(trace(Scenario::full_step), {{"AdamW's moments", has_role(Role::first_moment)}});
  return stages;
}

}  // namespace ridgeline

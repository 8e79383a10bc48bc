#include "studies/model_graph.h"

#include <fmt/format.h>

#include "passes/autocast.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/master_weights.h"
#include "passes/pack.h"
#include "passes/simplify.h"

namespace ridgeline {
namespace {

// Every fp32 tensor becomes tf32, which is stored alike: only products differ.
Graph with_tf32_products(const Graph& forward) {
  const auto changed = [](DType dtype) { return dtype == DType::f32 ? DType::tf32 : dtype; };
  Graph result;
  std::vector<Value> became(forward.value_count());
  for (const Node& node : forward.nodes()) {
    std::vector<Value> inputs;
    for (Value value : node.inputs) inputs.push_back(became[forward.index(value)]);
    Attributes attributes = node.attributes;
    attributes.target.type.dtype = changed(attributes.target.type.dtype);
    const Value added = result.add(node.op, std::move(inputs), std::move(attributes));
    if (!node.name.empty()) result.set_name(added, node.name);
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      became[node.first_value + output] = {added.node, output};
  }
  for (const Output& output : forward.outputs())
    result.mark_output(output.name, became[forward.index(output.value)]);
  return result;
}

Graph in_precision(const Graph& forward, ModelPrecision precision) {
  switch (precision) {
    case ModelPrecision::mixed:
      return autocast(forward);
    case ModelPrecision::tf32:
      return with_tf32_products(forward);
    case ModelPrecision::fp32:
      break;
  }
  return forward;
}

}  // namespace

ModelGraph model_graph(const ModelWorkload& workload, Scenario scenario,
                       const ModelGraphOptions& options) {
  const bool compiled = workload.mode == ModelMode::compiled;
  const auto begin = [&](const char* stage) {
    if (options.stage) options.stage(stage);
  };
  begin("trace");
  FlashReport report;
  const auto forward_pass = [&](const Graph& forward) {
    Graph cast = in_precision(forward, workload.precision);
    return compiled ? pack(flash(cast, {.backward = options.backward}, &report)) : cast;
  };
  ModelGraph result{.graph = training_graph(workload.config, {.scenario = scenario,
                                                              .attention = AttentionForm::plain,
                                                              .optimizer = options.optimizer,
                                                              .forward_pass = forward_pass})};
  begin("passes");
  if (compiled) result.graph = master_weights(simplify(decompose(result.graph)));
  result.flash_nodes = report.found.size();
  for (const auto& refusal : report.refusals)
    result.flash_refused.push_back(fmt::format("{}: {}", refusal.node, refusal.reason));
  return result;
}

}  // namespace ridgeline

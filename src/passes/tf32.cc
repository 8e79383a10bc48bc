#include "passes/tf32.h"

namespace ridgeline {

Graph tf32_products(const Graph& forward) {
  const auto changed = [](DType dtype) { return dtype == DType::f32 ? DType::tf32 : dtype; };
  Graph result;
  std::vector<Value> became(forward.value_count());
  for (const Node& node : forward.nodes()) {
    std::vector<Value> inputs;
    for (Value value : node.inputs) inputs.push_back(became[forward.index(value)]);
    Attributes attributes = node.attributes;
    attributes.target.type.dtype = changed(attributes.target.type.dtype);
    result.enter_scope(forward.scope_path(node));
    const Value added = result.add(node.op, std::move(inputs), std::move(attributes));
    if (!node.name.empty()) result.set_name(added, node.name);
    for (uint32_t output = 0; output < node.outputs.size(); ++output)
      became[node.first_value + output] = {added.node, output};
  }
  result.enter_scope(forward.current_scope());
  for (const Output& output : forward.outputs())
    result.mark_output(output.name, became[forward.index(output.value)]);
  return result;
}

}  // namespace ridgeline

// The invariants that every pass must leave intact.
#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "graph/graph.h"

namespace ridgeline {
namespace {

void require(bool holds, const std::string& problem) {
  if (!holds) throw Error(ErrorKind::internal, "broken graph: " + problem);
}

}  // namespace

void verify(const Graph& graph) {
  uint32_t values = 0;
  std::set<std::string> input_names;
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const std::string place = fmt::format("node {} ({})", number, info(node.op).name);
    std::vector<TensorType> types;
    for (Value input : node.inputs) {
      require(input.node < number, place + " reads a later node");
      require(input.output < graph.nodes()[input.node].outputs.size(),
              place + " reads a missing output");
      types.push_back(graph.type(input));
    }
    require(node.outputs == infer_types(node.op, types, node.attributes),
            place + " has the wrong type");
    require(node.first_value == values, place + " breaks the numbering of values");
    values += static_cast<uint32_t>(node.outputs.size());
    if (node.op == Op::input)
      require(input_names.insert(node.name).second, place + " repeats the name " + node.name);
  }
  require(values == graph.value_count(), "value count");
  for (const Output& output : graph.outputs())
    require(output.value.node < graph.nodes().size() &&
                output.value.output < graph.node(output.value).outputs.size(),
            "output " + output.name + " does not exist");
  uint32_t begin = 0;
  for (const Stage& stage : graph.stages()) {
    require(stage.begin == begin && stage.end >= begin, "stage " + stage.name + " is out of order");
    begin = stage.end;
  }
}

}  // namespace ridgeline

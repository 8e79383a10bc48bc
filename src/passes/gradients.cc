#include "passes/gradients.h"

#include "base/error.h"
#include "graph/layout.h"

namespace ridgeline {

FoundUpdate find_update(const Graph& graph) {
  std::optional<uint32_t> found;
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    if (graph.nodes()[number].op != Op::adamw_update) continue;
    if (found) throw Error(ErrorKind::usage, "the graph updates its parameters in several nodes");
    found = number;
  }
  if (!found || graph.stage_of(*found) == 0)
    throw Error(ErrorKind::usage, "the graph has no stage that updates parameters",
                "ranks share the gradients of whole training steps");
  const Node& node = graph.nodes()[*found];
  const auto& spec = std::get<AdamWSpec>(node.attributes.detail);
  const uint32_t first = spec.first_parameter();
  const auto count = static_cast<uint32_t>(node.outputs.size()) / spec.results_of_each();
  if (spec.copied)
    throw Error(ErrorKind::internal, "ranks were distributed after master weights were made");
  FoundUpdate update{.node = *found, .stage = graph.stage_of(*found), .parameters = {}};
  update.first_node = graph.stages()[update.stage].begin;
  const std::vector<Layout> places = layouts(graph);
  for (uint32_t i = 0; i < count; ++i) {
    const auto operand = [&](uint32_t kind) { return node.inputs[first + kind * count + i]; };
    UpdatedParameter each{.parameter = operand(0),
                          .flat = operand(1),
                          .gradient = operand(1),
                          .first_moment = operand(2),
                          .second_moment = operand(3),
                          .elements = element_count(graph.type(operand(0)).shape)};
    if (graph.node(each.flat).op == Op::reshape && each.flat.node >= update.first_node)
      each.gradient = graph.node(each.flat).inputs[0];
    const Layout& place = places[graph.index(each.flat)];
    const Node& holder = graph.node(place.storage);
    const bool is_constant = holder.op == Op::constant;
    each.is_zero = is_constant && std::get<Scalar>(holder.attributes.detail).value == 0;
    each.is_in_memory = !is_constant && is_contiguous(graph.type(each.flat).shape, place.strides);
    update.parameters.push_back(each);
  }
  return update;
}

}  // namespace ridgeline

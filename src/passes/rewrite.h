// The frame of every pass: walks a graph in order and builds a new one, node by node.
//
//   Graph without_double_negation(const Graph& graph) {
//     return rewrite(graph, [](const Site& site) -> std::vector<Value> {
//       const Node& inner = site.target.node(site.inputs[0]);
//       if (site.node.op != Op::negate || inner.op != Op::negate) return {};
//       return {inner.inputs[0]};
//     });
//   }
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

// A node of the old graph at the moment when it is to enter the new one.
struct Site {
  const Graph& source;
  uint32_t number;  // of the node in the source
  const Node& node;
  Graph& target;
  std::span<const Value> inputs;  // what the node's operands have become, in the target
  std::span<const Value> became;  // the same of every earlier value, by index in the source

  Tensor input(size_t i) const { return Tensor(target, inputs[i]); }
  Tensor now(Value old) const { return Tensor(target, became[source.index(old)]); }
};

// The node with other inputs.
std::vector<Value> results_of(const Site& site, std::vector<Value> inputs);

// What a node becomes: one value of the target for each of its results; none: a copy of it.
using RewriteRule = std::function<std::vector<Value>(const Site&)>;

struct RewriteOptions {
  bool keep_dtypes = true;  // whether a node must become something of its own type; shapes must
  bool keep_inputs = true;  // whether inputs stay as they are; else the rule is asked for them too
};

// Names, stages, outputs and the order of inputs stay. Nodes that nothing depends on are dropped,
// but inputs and updates are not. A rule's result that would read a tensor after it was updated in
// place is refused; the node is copied instead. The result is verified.
Graph rewrite(const Graph& graph, const RewriteRule& rule, RewriteOptions options = {});

// Which nodes an output, an update or an input depends on.
std::vector<bool> live_nodes(const Graph& graph);

// How often each value is read by a live node or is an output; by Graph::index.
std::vector<uint32_t> use_counts(const Graph& graph);

}  // namespace ridgeline

// The framework of every pass: walks a graph in order and builds a new one, node by node.
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

// A node of the old graph when the new one reaches it.
struct Site {
  const Graph& source;
  uint32_t number;  // of the node in the source
  const Node& node;
  Graph& target;
  std::span<const Value> inputs;  // the node's operands in the target
  std::span<const Value> became;  // every earlier value in the target, by index in the source

  Tensor input(size_t i) const { return Tensor(target, inputs[i]); }
  Tensor now(Value old) const { return Tensor(target, became[source.index(old)]); }
};

// The results of the node with other inputs, in the target.
std::vector<Value> results_of(const Site& site, std::vector<Value> inputs);

// The replacement of a node: one value of the target for each of its results; empty: a copy of it.
using RewriteRule = std::function<std::vector<Value>(const Site&)>;

struct RewriteOptions {
  bool keep_dtypes = true;  // whether replacements must keep the dtype; shapes always do
  bool keep_inputs = true;  // whether inputs are copied; else the rule applies to them too
};

// Preserves names, stages, outputs and the order of inputs. Drops dead nodes, except inputs and
// updates. If a rule's result would read a tensor after its update in place, it is rejected and the
// node is copied instead. The result is verified.
Graph rewrite(const Graph& graph, const RewriteRule& rule, RewriteOptions options = {});

// Which nodes an output, an update or an input depends on. `rejected` updates and inputs count only
// where others depend on them.
std::vector<bool> live_nodes(const Graph& graph, std::span<const uint32_t> rejected = {});

// How often each value is read by a live node or is an output; by Graph::index.
std::vector<uint32_t> use_counts(const Graph& graph);

}  // namespace ridgeline

// Where each value lies: views share the storage of the value they look at, updates that of the
// value they replace.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// Whether elements follow each other; steps along axes of one element are never taken.
bool is_contiguous(const Shape& shape, const Strides& strides);

struct Layout {
  Value storage;       // the value that owns the memory; itself unless this is a view or an update
  int64_t offset = 0;  // in elements
  Strides strides;     // in elements
};

// Strides that show `from` in the shape `to` without moving elements, if there are any.
std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to);

// What a view shows of a tensor of shape `from` that lies at `base`; nothing where strides cannot
// express a reshape.
std::optional<Layout> layout_of_view(const Node& view, const Shape& from, const Layout& base);

// Whether a result of a node is a tensor [B, H, S, D] of attention, which its kernels write through
// any strides. What they give beside it, one number for each row or tile, is contiguous.
bool is_head_tensor(const Node& node, uint32_t output);

struct LayoutOptions {
  // Whether head tensors lie token by token, [B, S, H, D] seen as [B, H, S, D]: the
  // products around it read them without a copy.
  bool token_major = false;
};

// Indexed by Graph::index. A reshape is a view where strides allow it and owns a copy otherwise. The
// sum of an all_reduce lies where its operand did if that is a whole result which nobody else reads.
std::vector<Layout> layouts(const Graph& graph, LayoutOptions options = {});

// A constant is one scalar kept by the executor, not a tensor: it takes no memory of the ledger.
inline bool owns_memory(const Graph& graph, const std::vector<Layout>& layouts, Value value) {
  return layouts[graph.index(value)].storage == value && graph.node(value).op != Op::constant;
}

// Whether a node starts a kernel or a collective: inputs, constants and pure views do not.
inline bool runs_kernel(const Graph& graph, const std::vector<Layout>& layouts, uint32_t number) {
  const Op op = graph.nodes()[number].op;
  return op != Op::input &&
         (is_update(op) || is_collective(op) || owns_memory(graph, layouts, {number, 0}));
}

// Whether a collective reads memory which could be given back once it is done: not
// an input, and not where its result lies.
inline bool holds_operand(const Graph& graph, const std::vector<Layout>& layouts, uint32_t number) {
  const Node& node = graph.nodes()[number];
  if (!is_collective(node.op)) return false;
  const Value operand = layouts[graph.index(node.inputs[0])].storage;
  return graph.node(operand).op != Op::input && operand != layouts[node.first_value].storage;
}

}  // namespace ridgeline

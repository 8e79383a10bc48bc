// Where each value is stored: views share the storage of the value they show, updates that of the
// value they replace.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// Whether elements are adjacent in order; strides of axes of size 1 do not matter.
bool is_contiguous(const Shape& shape, const Strides& strides);

struct Layout {
  Value storage;       // the value that owns the memory: itself, except for views and updates
  int64_t offset = 0;  // in elements
  Strides strides;     // in elements
};

// Strides that show `from` in the shape `to` without moving elements, if there are any.
std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to);

// The layout of a view of a tensor of shape `from` with layout `base`; none where strides cannot
// express a reshape.
std::optional<Layout> layout_of_view(const Node& view, const Shape& from, const Layout& base);

// Whether a result of a node is a tensor [B, H, S, D] of attention, which its kernels write with
// any strides. Their other results, one number for each row or tile, are contiguous.
bool is_head_tensor(const Node& node, uint32_t output);

struct LayoutOptions {
  // Whether head tensors are stored as [B, S, H, D] and viewed as [B, H, S, D], so that the
  // surrounding products read them without a copy.
  bool token_major = false;
};

// Indexed by Graph::index. A reshape is a view where strides allow it and owns a copy otherwise.
// The sum of an all_reduce reuses the storage of its operand if that is a whole result with no
// other reader.
std::vector<Layout> layouts(const Graph& graph, LayoutOptions options = {});

// A constant is one scalar kept by the executor, not a tensor: it is not in the ledger.
inline bool owns_memory(const Graph& graph, const std::vector<Layout>& layouts, Value value) {
  return layouts[graph.index(value)].storage == value && graph.node(value).op != Op::constant;
}

// Whether a node starts a kernel or a collective: inputs, constants and pure views do not.
inline bool runs_kernel(const Graph& graph, const std::vector<Layout>& layouts, uint32_t number) {
  const Op op = graph.nodes()[number].op;
  return op != Op::input &&
         (is_update(op) || is_collective(op) || owns_memory(graph, layouts, {number, 0}));
}

// Whether a collective reads memory that can be released once it is done: not an input, and not the
// storage of its result.
inline bool holds_operand(const Graph& graph, const std::vector<Layout>& layouts, uint32_t number) {
  const Node& node = graph.nodes()[number];
  if (!is_collective(node.op)) return false;
  const Value operand = layouts[graph.index(node.inputs[0])].storage;
  return graph.node(operand).op != Op::input && operand != layouts[node.first_value].storage;
}

}  // namespace ridgeline

#include "graph/layout.h"

#include <optional>

namespace ridgeline {

bool is_contiguous(const Shape& shape, const Strides& strides) {
  const Strides contiguous = contiguous_strides(shape);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && strides[axis] != contiguous[axis]) return false;
  return true;
}

// Walks both shapes from the back in groups of axes with equal products; a group must be evenly
// strided.
std::optional<Strides> reshape_strides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result = Dims::filled(to.rank(), 1);
  int source = from.rank() - 1;
  int axis = to.rank() - 1;
  while (axis >= 0) {
    while (source >= 0 && from[source] == 1) --source;
    if (to[axis] == 1) {
      --axis;
      continue;
    }
    // Here both sides have more than one element left, since the products are equal.
    int64_t wanted = to[axis];
    int64_t available = from[source];
    int64_t step = strides[source];
    const int64_t group_step = step;
    result[axis--] = step;
    while (wanted != available) {
      if (wanted < available) {
        while (to[axis] == 1) --axis;
        result[axis] = group_step * wanted;
        wanted *= to[axis--];
      } else {
        int next = source - 1;
        while (from[next] == 1) --next;
        if (strides[next] != step * from[source]) return std::nullopt;
        source = next;
        step = strides[source];
        available *= from[source];
      }
    }
    --source;
  }
  return result;
}

namespace {

Layout view_layout(const Node& node, const Shape& from, const Layout& base) {
  Layout layout = base;
  const Shape& to = node.outputs[0].shape;
  switch (node.op) {
    case Op::permute: {
      const Dims& order = std::get<Axes>(node.attributes.detail).axes;
      for (int axis = 0; axis < order.rank(); ++axis)
        layout.strides[axis] = base.strides[static_cast<int>(order[axis])];
      break;
    }
    case Op::expand: {
      layout.strides = Dims::filled(to.rank(), 0);
      const int extra = to.rank() - from.rank();
      for (int axis = extra; axis < to.rank(); ++axis)
        if (from[axis - extra] == to[axis]) layout.strides[axis] = base.strides[axis - extra];
      break;
    }
    case Op::slice: {
      const Range& range = std::get<Range>(node.attributes.detail);
      layout.offset += range.begin * base.strides[range.axis];
      break;
    }
    default:
      break;
  }
  return layout;
}

// Strides of [B, H, S, D] that lies as [B, S, H, D].
Strides token_major_strides(const Shape& shape) {
  const int64_t heads = shape[1], width = shape[3];
  return {shape[2] * heads * width, width, heads * width, 1};
}

// How often each value is read by a node or is an output.
std::vector<uint32_t> reader_counts(const Graph& graph) {
  std::vector<uint32_t> counts(graph.value_count(), 0);
  for (const Node& node : graph.nodes())
    for (Value input : node.inputs) ++counts[graph.index(input)];
  for (const Output& output : graph.outputs()) ++counts[graph.index(output.value)];
  return counts;
}

// Whether a value, behind views, is a whole result that nobody reads in another way.
bool is_private_result(const Graph& graph, Value value, const Layout& layout,
                       const std::vector<uint32_t>& readers) {
  const TensorType& type = graph.type(value);
  const bool is_whole = layout.offset == 0 && is_contiguous(type.shape, layout.strides) &&
                        byte_size(type) == byte_size(graph.type(layout.storage));
  while (is_whole && readers[graph.index(value)] == 1) {
    const Op op = graph.node(value).op;
    if (value == layout.storage) return op != Op::input && op != Op::constant;
    if (!is_view(op)) return false;
    value = graph.node(value).inputs[0];
  }
  return false;
}

}  // namespace

std::optional<Layout> layout_of_view(const Node& view, const Shape& from, const Layout& base) {
  if (view.op != Op::reshape) return view_layout(view, from, base);
  const auto strides = reshape_strides(from, base.strides, view.outputs[0].shape);
  if (!strides) return std::nullopt;
  return Layout{base.storage, base.offset, *strides};
}

bool is_head_tensor(const Node& node, uint32_t output) {
  return (node.op == Op::attention && output == 0) ||
         (node.op == Op::attention_gradient && output < 3);
}

std::vector<Layout> layouts(const Graph& graph, LayoutOptions options) {
  std::vector<Layout> result(graph.value_count());
  const std::vector<uint32_t> readers = reader_counts(graph);
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    for (uint32_t output = 0; output < node.outputs.size(); ++output) {
      const Value value{number, output};
      Layout& layout = result[graph.index(value)];
      layout = {value, 0, contiguous_strides(node.outputs[output].shape)};
      if (const auto updated = updated_input(node, output))
        layout = result[graph.index(node.inputs[*updated])];
      if (options.token_major && is_head_tensor(node, output))
        layout.strides = token_major_strides(node.outputs[output].shape);
      if (node.op == Op::all_reduce) {
        const Layout& operand = result[graph.index(node.inputs[0])];
        if (is_private_result(graph, node.inputs[0], operand, readers)) layout = operand;
      }
      if (!is_view(node.op)) continue;
      const Layout& base = result[graph.index(node.inputs[0])];
      const Shape& from = graph.type(node.inputs[0]).shape;
      if (const auto seen = layout_of_view(node, from, base)) layout = *seen;
    }
  }
  return result;
}

}  // namespace ridgeline

#include "passes/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridgeline {
namespace {

constexpr int kMaskNodes = 64;  // more than any comparison of positions needs

// A tensor whose elements are start + query * by_query + key * by_key, for positions along the last
// two axes.
struct Line {
  double start = 0;
  double by_query = 0;
  double by_key = 0;
};

// Adding or dropping axes of size 1 moves a line that extends along one axis to where that axis is
// now. A line that is repeated along another axis starts again after a reshape.
std::optional<Line> reshaped(const Line& line, const Shape& from, const Shape& to) {
  const auto size = [](const Shape& shape, int from_end) {
    return from_end < shape.rank() ? shape.back(from_end) : 1;
  };
  if (size(from, 0) == size(to, 0) && size(from, 1) == size(to, 1)) return line;
  if (line.by_query != 0 && line.by_key != 0) return std::nullopt;
  const int64_t length = size(from, line.by_key != 0 ? 0 : 1);
  if (length != element_count(from)) return std::nullopt;
  const double step = line.by_query + line.by_key;
  if (size(to, 0) == length) return Line{line.start, 0, step};
  if (size(to, 1) == length) return Line{line.start, step, 0};
  return std::nullopt;
}

std::optional<Line> permuted(const Line& line, const Dims& order) {
  Line result{line.start, 0, 0};
  for (int from_end = 0; from_end < order.rank(); ++from_end) {
    const auto source = order.rank() - 1 - order.back(from_end);  // counted from the end
    const double step = source == 0 ? line.by_key : source == 1 ? line.by_query : 0;
    if (from_end > 1 && step != 0) return std::nullopt;
    if (from_end == 0) result.by_key = step;
    if (from_end == 1) result.by_query = step;
  }
  return result;
}

// `left`: how many more nodes may be looked at, since shared operands are visited again.
std::optional<Line> line_of(const Graph& graph, Value value, int& left) {
  const Node& node = graph.node(value);
  if (--left < 0) return std::nullopt;
  const auto operand = [&](size_t i) { return line_of(graph, node.inputs[i], left); };
  switch (node.op) {
    case Op::constant:
      return Line{std::get<Scalar>(node.attributes.detail).value, 0, 0};
    case Op::iota:
      return Line{0, 0, graph.type(value).shape[0] == 1 ? 0.0 : 1.0};
    case Op::cast: {
      // Positions are exact in wide types only; a cast to i32 would cut off a fraction.
      const DType from = graph.type(node.inputs[0]).dtype, to = graph.type(value).dtype;
      if (info(to).size < 4 || (is_floating(from) && !is_floating(to))) return std::nullopt;
      return operand(0);
    }
    case Op::expand:
      return operand(0);
    case Op::reshape:
    case Op::permute: {
      const auto x = operand(0);
      if (!x || (x->by_query == 0 && x->by_key == 0)) return x;
      if (node.op == Op::permute) return permuted(*x, std::get<Axes>(node.attributes.detail).axes);
      return reshaped(*x, graph.type(node.inputs[0]).shape, graph.type(value).shape);
    }
    case Op::negate: {
      const auto x = operand(0);
      if (!x) return std::nullopt;
      return Line{-x->start, -x->by_query, -x->by_key};
    }
    case Op::add:
    case Op::subtract: {
      const auto x = operand(0), y = operand(1);
      if (!x || !y) return std::nullopt;
      const double sign = node.op == Op::add ? 1 : -1;
      return Line{x->start + sign * y->start, x->by_query + sign * y->by_query,
                  x->by_key + sign * y->by_key};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Band> band_where(const Graph& graph, Value condition, int64_t queries, int64_t keys) {
  const Node* node = &graph.node(condition);
  while (node->op == Op::expand) node = &graph.node(node->inputs[0]);
  if (node->op != Op::less && node->op != Op::less_equal) return std::nullopt;
  int left = kMaskNodes;
  const auto a = line_of(graph, node->inputs[0], left);
  const auto b = line_of(graph, node->inputs[1], left);
  if (!a || !b) return std::nullopt;
  // 0 <= room + step * (key - query), or 0 < the same.
  const double room = b->start - a->start;
  double step = b->by_key - a->by_key;
  double against = b->by_query - a->by_query;
  // Along an axis of one position nothing shows how the condition would go on.
  if (keys == 1) step = -against;
  if (queries == 1) against = -step;
  if (against != -step || std::abs(step) != 1) return std::nullopt;
  if (!(std::abs(room) < 0x1p40)) return std::nullopt;
  const bool strict = node->op == Op::less;
  const auto reach = static_cast<int64_t>(strict ? std::ceil(room) - 1 : std::floor(room));
  return step < 0 ? Band{{}, reach} : Band{-reach, {}};
}

MaskChoice mask_of(const Band& band, int64_t queries, int64_t keys) {
  using Alignment = AttentionMask::Alignment;
  // The differences key - query that occur; a bound beyond them hides nothing.
  const int64_t smallest = 1 - queries, largest = keys - 1;
  const int64_t low = std::max(band.low.value_or(smallest), smallest);
  const int64_t high = std::min(band.high.value_or(largest), largest);
  MaskChoice choice;
  for (int64_t query : {int64_t{0}, queries - 1})  // who sees nothing is first or last
    if (std::max<int64_t>(query + low, 0) > std::min(query + high, keys - 1)) {
      choice.blind = true;
      choice.refusal = fmt::format(
          "query {} sees no key: softmax gives NaN there, attention would give 0", query);
      return choice;
    }
  if (low == smallest && high == largest) return {};
  if (high == 0) {
    choice.mask = {.causal = true, .alignment = Alignment::top_left};
  } else if (high == keys - queries) {
    choice.mask = {.causal = true, .alignment = Alignment::bottom_right};
  } else {
    choice.refusal = fmt::format(
        "its mask shows keys up to {} behind the query; only 0 (top left) or {} (bottom right) "
        "can be skipped",
        high, keys - queries);
    return choice;
  }
  if (low > smallest) choice.mask.window = high - low + 1;
  return choice;
}

}  // namespace ridgeline

#include "cost/cost.h"

#include <algorithm>

#include "graph/collective_kind.h"
#include "graph/layout.h"

namespace ridgeline {
namespace {

enum class CountedOver { nothing, output, input, last_input, all_inputs, products, visible_pairs };

struct CostRule {
  CountedOver over = CountedOver::nothing;
  // Per element of what it is counted over; for products and pairs, per multiply-accumulate.
  double flops = 0;
  double products = 1;    // matrix products over the visible query-key pairs
  bool looks_up = false;  // reads only as much of the first input as it writes
  bool appends = false;   // accesses only as much of the first input as the second one has
};

constexpr CostRule kFree = {};
constexpr CostRule kMoves = {CountedOver::output, 0};
constexpr CostRule kReduces = {CountedOver::input, 1};

constexpr OpTable<CostRule> kRules = {
    [](const PointwiseRow& row) {
      return CostRule{CountedOver::output, row.says.flops};
    },
    {
        {Op::input, kFree},
        {Op::constant, kFree},
        {Op::iota, kMoves},
        {Op::softmax, {CountedOver::output, 5}},               // max, subtract, exp, sum, divide
        {Op::softmax_gradient, {CountedOver::output, 4}},      // multiply, sum, subtract, multiply
        {Op::log_softmax, {CountedOver::output, 5}},           // max, subtract, exp, sum, subtract
        {Op::log_softmax_gradient, {CountedOver::output, 4}},  // sum, exp, multiply, subtract
        {Op::sum, kReduces},
        {Op::mean, kReduces},
        {Op::max, kReduces},
        {Op::matmul, {CountedOver::products, 2}},
        {Op::attention, {CountedOver::visible_pairs, 2, 2}},
        {Op::attention_gradient,
         {CountedOver::visible_pairs, 2, 5}},  // the minimum; a two-pass kernel does 7
        {Op::gather, {.over = CountedOver::output, .looks_up = true}},
        {Op::scatter_add, {CountedOver::last_input, 1}},
        {Op::pick, {.over = CountedOver::output, .looks_up = true}},
        {Op::place, kMoves},
        {Op::argmax, kReduces},
        {Op::sum_of_squares, {CountedOver::all_inputs, 2}},
        {Op::adamw_update, {CountedOver::all_inputs, 4}},  // about 16 for each parameter
        {Op::loss_scale_update, {CountedOver::output, 1}},
        {Op::append, {.over = CountedOver::output, .appends = true}},
        {Op::advance, {CountedOver::output, 1}},
        {Op::ring_positions, kMoves},
        {Op::reshape, kMoves},
        {Op::permute, kFree},
        {Op::expand, kFree},
        {Op::slice, kFree},
        {Op::concat, kMoves},
        {Op::pad, kMoves},
        {Op::all_reduce, kMoves},
        {Op::reduce_scatter, kMoves},
        {Op::all_gather, kMoves},
    },
};

double elements(const TensorType& type) {
  return static_cast<double>(element_count(type.shape));
}

// Bytes that a view refers to: a broadcast axis (stride 0) counts as one element.
double bytes_read(const TensorType& type, const Strides& strides) {
  double count = info(type.dtype).size;
  for (int axis = 0; axis < type.shape.rank(); ++axis)
    if (strides[axis] != 0) count *= static_cast<double>(type.shape[axis]);
  return count;
}

// Bytes of the appended rows that are stored: at most as many rows as the cache has slots.
double appended_bytes(const Graph& graph, const Node& node) {
  const Shape &cache = graph.type(node.inputs[0]).shape, &rows = graph.type(node.inputs[1]).shape;
  const auto stored = static_cast<double>(std::min(cache.back(1), rows.back(1)));
  return static_cast<double>(byte_size(graph.type(node.inputs[1])).count) * stored /
         static_cast<double>(rows.back(1));
}

// Query-key pairs that the mask of an attention node lets through, over all heads.
double visible_pairs(const Graph& graph, const Node& node) {
  const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
  const Shape& q = graph.type(node.inputs[0]).shape;
  const auto heads = static_cast<double>(q[0] * q[1]);
  const int64_t keys = graph.type(node.inputs[1]).shape[2];
  if (!spec.cached) return visible_pairs(spec.mask, q[2], keys) * heads;
  const AttentionMask mask{.causal = true,
                           .alignment = AttentionMask::Alignment::bottom_right,
                           .window = spec.mask.window};
  return visible_pairs(mask, q[2], keys) * heads;
}

// The fraction of the slots of a cache that attention reads.
double cached_share(const Graph& graph, const Node& node) {
  const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
  const int64_t slots = graph.type(node.inputs[1]).shape[2];
  int64_t read = slots;
  if (spec.mask.window > 0)
    read = std::min(read, spec.mask.window + graph.type(node.inputs[0]).shape[2] - 1);
  return static_cast<double>(read) / static_cast<double>(slots);
}

double communicated_bytes(const Graph& graph, const Node& node) {
  const TensorType& whole =
      node.op == Op::all_gather ? node.outputs[0] : graph.type(node.inputs[0]);
  return bus_factor(collective_kind(node.op), rank_count(node)) *
         static_cast<double>(byte_size(whole).count);
}

bool is_cached(const Node& node) {
  return node.op == Op::attention && std::get<AttentionSpec>(node.attributes.detail).cached;
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  macs += other.macs;
  bytes += other.bytes;
  communicated += other.communicated;
  return *this;
}

std::vector<Cost> node_costs(const Graph& graph) {
  const std::vector<Layout> places = layouts(graph);
  std::vector<Cost> costs(graph.nodes().size());
  for (uint32_t number = 0; number < graph.nodes().size(); ++number) {
    const Node& node = graph.nodes()[number];
    const bool moves_nothing = is_view(node.op) && !owns_memory(graph, places, {number, 0});
    const CostRule rule = kRules[node.op];
    if (rule.over == CountedOver::nothing || moves_nothing) continue;

    Cost& cost = costs[number];
    if (is_collective(node.op)) cost.communicated = communicated_bytes(graph, node);
    if (rule.appends) {
      const double rows = appended_bytes(graph, node);
      cost.bytes = 2 * rows + static_cast<double>(byte_size(graph.type(node.inputs[2])).count);
      continue;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value input = node.inputs[i];
      if (graph.node(input).op == Op::constant) continue;
      const double share = is_cached(node) && (i == 1 || i == 2) ? cached_share(graph, node) : 1;
      cost.bytes += i == 0 && rule.looks_up
                        ? static_cast<double>(byte_size(node.outputs[0]).count)
                        : share * bytes_read(graph.type(input), places[graph.index(input)].strides);
    }
    for (const TensorType& type : node.outputs)
      cost.bytes += static_cast<double>(byte_size(type).count);

    const double output = elements(node.outputs[0]);
    const auto width = node.inputs.empty() || graph.type(node.inputs[0]).shape.rank() == 0
                           ? 0.0
                           : static_cast<double>(graph.type(node.inputs[0]).shape.back());
    if (rule.over == CountedOver::products) {
      cost.macs = output * width;
      cost.flops = cost.macs * rule.flops;
    } else if (rule.over == CountedOver::visible_pairs) {
      cost.macs = rule.products * visible_pairs(graph, node) * width;
      cost.flops = cost.macs * rule.flops;
    } else if (rule.over == CountedOver::all_inputs) {
      for (Value input : node.inputs) cost.flops += rule.flops * elements(graph.type(input));
    } else {
      const double counted = rule.over == CountedOver::input ? elements(graph.type(node.inputs[0]))
                             : rule.over == CountedOver::last_input
                                 ? elements(graph.type(node.inputs.back()))
                                 : output;
      cost.flops = rule.flops * counted;
    }
  }
  return costs;
}

Cost stage_cost(const Graph& graph, const Stage& stage) {
  const std::vector<Cost> costs = node_costs(graph);
  Cost total;
  for (uint32_t number = stage.begin; number < stage.end; ++number) total += costs[number];
  return total;
}

}  // namespace ridgeline

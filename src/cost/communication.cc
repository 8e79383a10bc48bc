#include "cost/communication.h"

#include <algorithm>
#include <bit>

namespace ridgeline {
namespace {

constexpr CollectiveAlgorithmInfo kAlgorithms[] = {
    {CollectiveAlgorithm::ring, "ring",
     "shards go around: fewest bytes, steps grow with the ranks"},
    {CollectiveAlgorithm::tree, "tree", "two binary trees: steps grow with the logarithm"},
    {CollectiveAlgorithm::hierarchical, "hierarchical", "within nodes, then a shard between them"},
};

double levels(int ranks) {  // depth of a binary tree: ceil(log2 ranks)
  return ranks > 1 ? std::bit_width(static_cast<unsigned>(ranks - 1)) : 0;
}

// Passes over all ranks: an all-reduce is a reduce-scatter and an all-gather.
double rounds(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce ? 2 : 1;
}

double time_of(const CollectiveCost& cost, const Network& network) {
  // In one ring or tree, the same chunks go through links inside and between nodes, which transfer
  // at the same time. hierarchical() adds up the times of its two levels itself.
  return cost.steps_inside * network.inside.latency_s +
         cost.steps_between * network.between.latency_s +
         std::max(cost.bytes_inside / network.inside.bytes_per_s,
                  cost.bytes_between / network.between.bytes_per_s);
}

CollectiveCost ring(const CollectiveSize& size, const Network& network) {
  const double steps = rounds(size.kind) * (size.ranks - 1);
  CollectiveCost cost{.bytes_inside = bus_factor(size.kind, size.ranks) * size.bytes};
  if (network.nodes(size.ranks) > 1) {
    cost.steps_between = steps;
    cost.bytes_between = cost.bytes_inside / network.ranks_per_node;
  } else {
    cost.steps_inside = steps;
  }
  cost.seconds = time_of(cost, network);
  return cost;
}

CollectiveCost tree(const CollectiveSize& size, const Network& network) {
  if (size.kind == CollectiveKind::reduce_scatter || size.kind == CollectiveKind::all_gather)
    return ring(size, network);
  const int nodes = network.nodes(size.ranks);
  const double there_and_back = rounds(size.kind);
  CollectiveCost cost{
      .steps_inside = there_and_back * levels(nodes > 1 ? network.ranks_per_node : size.ranks),
      .steps_between = there_and_back * levels(nodes),
      .bytes_inside = there_and_back * size.bytes,
      .bytes_between = nodes > 1 ? there_and_back * size.bytes / network.ranks_per_node : 0};
  cost.seconds = time_of(cost, network);
  return cost;
}

CollectiveCost hierarchical(const CollectiveSize& size, const Network& network) {
  const int nodes = network.nodes(size.ranks);
  if (nodes == 1 || network.ranks_per_node == 1) return ring(size, network);
  const Network one_node{.inside = network.inside, .ranks_per_node = network.ranks_per_node};
  const Network outside{.inside = network.between, .ranks_per_node = nodes};
  const CollectiveCost within = ring({size.kind, size.bytes, network.ranks_per_node}, one_node);
  const CollectiveCost across =
      ring({size.kind, size.bytes / network.ranks_per_node, nodes}, outside);
  return {.steps_inside = within.steps_inside,
          .steps_between = across.steps_inside,
          .bytes_inside = within.bytes_inside,
          .bytes_between = across.bytes_inside,
          .seconds = within.seconds + across.seconds};
}

}  // namespace

std::span<const CollectiveAlgorithmInfo> collective_algorithms() {
  return kAlgorithms;
}

std::string_view name(CollectiveAlgorithm algorithm) {
  return kAlgorithms[static_cast<size_t>(algorithm)].name;
}

int Network::nodes(int ranks) const {
  return ranks <= ranks_per_node ? 1 : (ranks + ranks_per_node - 1) / ranks_per_node;
}

CollectiveCost collective_cost(const CollectiveSize& size, CollectiveAlgorithm algorithm,
                               const Network& network) {
  if (size.ranks < 2) return {};
  switch (algorithm) {
    case CollectiveAlgorithm::ring:
      return ring(size, network);
    case CollectiveAlgorithm::tree:
      return tree(size, network);
    case CollectiveAlgorithm::hierarchical:
      return hierarchical(size, network);
  }
  return {};
}

CollectiveTime modelled_time(CollectiveAlgorithm algorithm, const Network& network, int ranks) {
  return [=](CollectiveKind kind, double bytes) {
    return collective_cost({kind, bytes, ranks}, algorithm, network).seconds;
  };
}

std::optional<double> ring_over_tree_bytes(int ranks, const Link& link) {
  const double more_steps = ranks - 1 - levels(ranks);
  if (more_steps <= 0) return std::nullopt;
  return ranks * more_steps * link.latency_s * link.bytes_per_s;
}

}  // namespace ridgeline

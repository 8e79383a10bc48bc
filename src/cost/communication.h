// Analytic cost of collectives: sequential messages, bytes that a rank sends, and the time of both
// on links with a latency and a bandwidth.
//
//   const Network nvlink{.inside = {.latency_s = 5e-6, .bytes_per_s = 450e9}, .ranks_per_node = 8};
//   collective_cost({CollectiveKind::all_reduce, 1e9, 8}, CollectiveAlgorithm::ring, nvlink);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "graph/collective_kind.h"

namespace ridgeline {

enum class CollectiveAlgorithm : uint8_t { ring, tree, hierarchical };

struct CollectiveAlgorithmInfo {
  CollectiveAlgorithm algorithm;
  std::string_view name;
  std::string_view summary;
};
std::span<const CollectiveAlgorithmInfo> collective_algorithms();
std::string_view name(CollectiveAlgorithm algorithm);

// From a rank to its neighbour: a message takes latency_s + bytes / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 1;
};

// Nodes with equal numbers of ranks. Every rank has a link inside its node and one to other nodes,
// so that a node has as many outgoing links as ranks, and all of them are used.
struct Network {
  Link inside = {};
  Link between = {};
  int ranks_per_node = 8;

  // Nodes needed for `ranks` ranks; several are assumed to be full.
  int nodes(int ranks) const;
};

struct CollectiveSize {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;  // of the whole buffer
  int ranks = 2;
};

struct CollectiveCost {
  double steps_inside = 0, steps_between = 0;  // sequential messages
  double bytes_inside = 0, bytes_between = 0;  // sent by a rank over either link
  double seconds = 0;
};

// - ring: a reduce-scatter or an all-gather takes n - 1 steps. Across nodes there are as many rings
//   as a node has outgoing links, and every step waits for the link between nodes.
// - tree: two binary trees with half of the buffer each, in chunks small enough to keep links busy.
//   An all-reduce is 2 log2 n messages deep, and a rank sends the buffer twice. Reduce-scatter and
//   all-gather use the ring.
// - hierarchical: an all-reduce is a reduce-scatter within each node, an all-reduce of a shard
//   between nodes, and an all-gather within each node.
CollectiveCost collective_cost(const CollectiveSize& size, CollectiveAlgorithm algorithm,
                               const Network& network);

// Seconds of a collective over `bytes`, for a fixed number of ranks.
using CollectiveTime = std::function<double(CollectiveKind kind, double bytes)>;
CollectiveTime modelled_time(CollectiveAlgorithm algorithm, const Network& network, int ranks);

// The size from which an all-reduce within one node is no slower by ring than by tree: a ring sends
// fewer bytes in more steps. Empty if the ring has no more steps (two ranks).
std::optional<double> ring_over_tree_bytes(int ranks, const Link& link);

}  // namespace ridgeline

// What collectives cost by arithmetic: messages one after another, bytes that a rank sends, and the
// time of both on links with a latency and a bandwidth.
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

// From a rank to its neighbour: a message takes latency_s and its bytes over bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = 1;
};

// Nodes of equally many ranks. Every rank has a link to the others of its node and one out of it,
// so that a node has as many links outwards as ranks, and all of them are used.
struct Network {
  Link inside = {};
  Link between = {};
  int ranks_per_node = 8;

  // How ranks are spread: as many nodes as it takes, all of them full or one of them alone.
  int nodes(int ranks) const;
};

// Over a buffer of `bytes` on each of `ranks` ranks.
struct CollectiveSize {
  CollectiveKind kind = CollectiveKind::all_reduce;
  double bytes = 0;
  int ranks = 2;
};

struct CollectiveCost {
  double steps_inside = 0, steps_between = 0;  // messages that wait for one another
  double bytes_inside = 0, bytes_between = 0;  // that a rank sends over either link
  double seconds = 0;
};

// ring: the ranks pass shards around, n - 1 times for a reduce-scatter or an all-gather. Over
// several nodes there are as many rings as a node has links outwards, and every step waits for the
// link between nodes. tree: two binary trees that have one half of the buffer each, in chunks small
// enough that links are busy all the time: 2 log2 n messages deep for an all-reduce, and twice the
// buffer is sent. Reduce-scatter and all-gather have no tree and go around a ring. hierarchical: a
// reduce-scatter within each node, the collective between nodes on a shard, an all-gather within
// each node.
CollectiveCost collective_cost(const CollectiveSize& size, CollectiveAlgorithm algorithm,
                               const Network& network);

// The time of a collective over so many bytes, among ranks that are known.
using CollectiveTime = std::function<double(CollectiveKind kind, double bytes)>;
CollectiveTime modelled_time(CollectiveAlgorithm algorithm, const Network& network, int ranks);

// Bytes from which on a ring is no slower than a tree for an all-reduce within one node: more
// steps, fewer bytes. Empty: a ring of two has no more steps.
std::optional<double> ring_over_tree_bytes(int ranks, const Link& link);

}  // namespace ridgeline

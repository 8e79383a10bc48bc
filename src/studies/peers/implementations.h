// Attention and models of other libraries that are measured beside ours; peers/ runs them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ridgeline {

struct PeerImplementation {
  std::string_view name;     // "torch.sdpa.cudnn"
  std::string_view library;  // the worker that runs it: "torch"
  std::string_view summary;
};

struct PeerTable {
  std::span<const PeerImplementation> rows;
  std::string_view heading;  // of list()

  auto begin() const { return rows.begin(); }
  auto end() const { return rows.end(); }
  const PeerImplementation* find(std::string_view name) const;  // null if it is not a peer
  std::string list() const;  // for --list: the heading, and one line per peer
};
extern const PeerTable kAttentionPeers, kModelPeers, kTextPeers;

}  // namespace ridgeline

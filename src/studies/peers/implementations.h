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

std::span<const PeerImplementation> peer_implementations();  // of attention
const PeerImplementation* find_peer(std::string_view name);  // null if it is not a peer
// The same for whole models.
std::span<const PeerImplementation> model_peers();
const PeerImplementation* find_model_peer(std::string_view name);
// The same for models that generate text.
std::span<const PeerImplementation> text_peers();
const PeerImplementation* find_text_peer(std::string_view name);

// For --list: a heading, and one line per peer.
std::string peer_list();
std::string model_peer_list();
std::string text_peer_list();

}  // namespace ridgeline

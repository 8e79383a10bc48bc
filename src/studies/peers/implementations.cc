#include "studies/peers/implementations.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridgeline {
namespace {

// peers/registry.py has the same names. Libraries on PyTorch share its worker.
constexpr PeerImplementation kPeers[] = {
    {"torch.naive", "torch", "PyTorch eager, one kernel per step of the formula"},
    {"torch.compile", "torch", "the same formula through torch.compile"},
    {"torch.sdpa", "torch", "scaled_dot_product_attention, PyTorch's own choice of a backend"},
    {"torch.sdpa.flash", "torch", "SDPA, its flash backend or nothing"},
    {"torch.sdpa.cudnn", "torch", "SDPA, its cuDNN backend or nothing"},
    {"torch.sdpa.efficient", "torch", "SDPA, its memory-efficient backend or nothing"},
    {"torch.sdpa.math", "torch", "SDPA, its backend of ordinary operations or nothing"},
    {"torch.flex", "torch", "flex_attention, compiled"},
    {"flash_attn", "torch", "the package flash-attn (FlashAttention-2)"},
    {"flash_attn_3", "torch", "the package flash-attn-3 (FlashAttention-3)"},
    {"xformers", "torch", "xFormers' memory_efficient_attention"},
    {"jax.naive", "jax", "the formula under jax.jit"},
    {"jax.xla", "jax", "jax.nn.dot_product_attention by XLA"},
    {"jax.cudnn", "jax", "jax.nn.dot_product_attention by cuDNN"},
};

// peers/torch_forms.py has the same names.
constexpr PeerImplementation kModelPeers[] = {
    {"torch.eager", "torch", "PyTorch eager, attention as the formula is written"},
    {"torch.sdpa", "torch", "PyTorch eager with scaled_dot_product_attention"},
    {"torch.compile", "torch", "the model of torch.eager through torch.compile"},
    {"torch.compile.sdpa", "torch", "the model of torch.sdpa through torch.compile"},
    {"torch.compile.reduce-overhead", "torch", "the same with torch.compile's CUDA graphs"},
};

// peers/registry.py has the same names.
constexpr PeerImplementation kTextPeers[] = {
    {"transformers.eager", "transformers", "transformers, eager, with its growing cache"},
    {"transformers.static.compile", "transformers", "its static cache, the step by torch.compile"},
    {"transformers.graph", "transformers",
     "the same step in a CUDA graph, tokens fed back on the device; on a CPU without the graph"},
    {"llama.cpp", "llama", "llama-cpp-python, on a gguf file of the same weights"},
};

const PeerImplementation* find_in(std::span<const PeerImplementation> peers,
                                  std::string_view name) {
  for (const PeerImplementation& peer : peers)
    if (peer.name == name) return &peer;
  return nullptr;
}

std::string list_of(std::span<const PeerImplementation> peers, const char* heading) {
  size_t width = 0;
  for (const PeerImplementation& peer : peers) width = std::max(width, peer.name.size());
  std::string text = heading;
  for (const PeerImplementation& peer : peers)
    text += fmt::format("  {:<{}} {}\n", peer.name, width, peer.summary);
  return text;
}

}  // namespace

std::span<const PeerImplementation> peer_implementations() {
  return kPeers;
}

const PeerImplementation* find_peer(std::string_view name) {
  return find_in(kPeers, name);
}

std::span<const PeerImplementation> model_peers() {
  return kModelPeers;
}

const PeerImplementation* find_model_peer(std::string_view name) {
  return find_in(kModelPeers, name);
}

std::span<const PeerImplementation> text_peers() {
  return kTextPeers;
}

const PeerImplementation* find_text_peer(std::string_view name) {
  return find_in(kTextPeers, name);
}

std::string text_peer_list() {
  return list_of(kTextPeers, "models of other libraries, where they are installed:\n");
}

std::string peer_list() {
  return list_of(kPeers, "other libraries, where they are installed:\n");
}

std::string model_peer_list() {
  return list_of(kModelPeers, "models of other libraries, where they are installed:\n");
}

}  // namespace ridgeline

#include "studies/peers/implementations.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridgeline {
namespace {

// peers/registry.py has the same names. Libraries on PyTorch share its worker.
constexpr PeerImplementation kOfAttention[] = {
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
constexpr PeerImplementation kOfModels[] = {
    {"torch.eager", "torch", "PyTorch eager, attention as the formula is written"},
    {"torch.sdpa", "torch", "PyTorch eager with scaled_dot_product_attention"},
    {"torch.compile", "torch", "the model of torch.eager through torch.compile"},
    {"torch.compile.sdpa", "torch", "the model of torch.sdpa through torch.compile"},
    {"torch.compile.reduce-overhead", "torch", "the same with torch.compile's CUDA graphs"},
};

// peers/registry.py has the same names.
constexpr PeerImplementation kOfText[] = {
    {"transformers.eager", "transformers", "transformers, eager, with its growing cache"},
    {"transformers.static.compile", "transformers", "its static cache, the step by torch.compile"},
    {"transformers.graph", "transformers",
     "the same step in a CUDA graph, tokens fed back on the device; on a CPU without the graph"},
    {"llama.cpp", "llama", "llama-cpp-python, on a gguf file of the same weights"},
};

constexpr std::string_view kModelHeading = "models of other libraries, where they are installed:\n";

}  // namespace

const PeerTable kAttentionPeers{kOfAttention, "other libraries, where they are installed:\n"};
const PeerTable kModelPeers{kOfModels, kModelHeading};
const PeerTable kTextPeers{kOfText, kModelHeading};

const PeerImplementation* PeerTable::find(std::string_view name) const {
  const auto found = std::ranges::find(rows, name, &PeerImplementation::name);
  return found == rows.end() ? nullptr : &*found;
}

std::string PeerTable::list() const {
  size_t width = 0;
  for (const PeerImplementation& peer : rows) width = std::max(width, peer.name.size());
  std::string text(heading);
  for (const PeerImplementation& peer : rows)
    text += fmt::format("  {:<{}} {}\n", peer.name, width, peer.summary);
  return text;
}

}  // namespace ridgeline

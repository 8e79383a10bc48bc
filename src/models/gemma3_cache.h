// Gemma-3 with a cache of keys and values, so that one graph serves every step of a text:
//
//   const Graph prefill =
//       gemma3_prefill_graph(config, {.tokens = 128, .capacity = 4096, .greedy = true});
//   const Graph decode = gemma3_decode_graph(config, {.capacity = 4096, .greedy = true});
//
// Both have the caches and the position as inputs of the same names and types, which they update in
// place: bind them to the same memory.
#pragma once

#include "base/units.h"
#include "models/gemma3.h"

namespace ridgeline {

struct Gemma3CacheOptions {
  int64_t batch_size = 1;
  int64_t tokens = 1;       // per run
  int64_t capacity = 1024;  // positions in the caches of full layers and in the tables
  // The most tokens per run of a decode graph on these caches: rings of sliding layers hold the
  // windows of all of them. 0: `tokens`, of a decode graph.
  int64_t chunk = 0;
  DType dtype = DType::bf16;
  AttentionForm attention = AttentionForm::plain;
  bool last_only = true;  // logits of the last token alone
  // The next token is the one with the largest logit. Decoding of one token overwrites the input
  // with it, so that the next run reads it.
  bool greedy = false;
  int64_t history = 0;  // with `greedy`: tokens of each sequence that are kept; 0: none
};

// Rows of a layer's caches: the capacity, or what a sliding layer needs of it.
int64_t gemma3_cache_slots(const Gemma3Config& config, Gemma3Layer layer,
                           const Gemma3CacheOptions& options);

// Keys and values of all layers and sequences.
Bytes gemma3_cache_bytes(const Gemma3Config& config, const Gemma3CacheOptions& options);

// What one more token of one sequence adds to the caches: sliding layers stop growing at their
// window.
struct Gemma3TokenBytes {
  Bytes within_window, past_window;
};
Gemma3TokenBytes gemma3_cache_bytes_per_token(const Gemma3Config& config, DType dtype);

// Tokens at positions 0, 1, ...: the input "position" must hold 0.
// Inputs: "tokens", i32 [B, tokens]; "position", i32 [1], how many tokens came before;
// "layers.N.keys" and "layers.N.values", [B, key_heads, slots, head_dim]; the tables, [capacity,
// head_dim / 2]; every parameter; with a history "history", i32 [B, history]. Outputs: "logits",
// [B, 1 or tokens, vocabulary]; caches, position and history as they are then; if greedy "next",
// i32 [B, 1], which also stands in the history, in slot (its own position - 1) mod history.
Graph gemma3_prefill_graph(const Gemma3Config& config, const Gemma3CacheOptions& options);

// Tokens from the position on, after everything that is cached. Initialise the caches with numbers,
// such as zeros, before the first run. Inputs and outputs as above; greedy decoding of one token
// has the output "tokens" instead of "next", in the storage of the input.
Graph gemma3_decode_graph(const Gemma3Config& config, const Gemma3CacheOptions& options);

enum class Gemma3Part : uint8_t { attention, mlp, layer };  // a layer is one after the other

struct Gemma3PartOptions {
  Gemma3Part part = Gemma3Part::layer;
  Gemma3Layer kind = Gemma3Layer::full;
  int64_t batch_size = 1;
  int64_t tokens = 1;
  int64_t before = 0;    // tokens already in the cache, as in the input "position"
  int64_t capacity = 0;  // of the cache and the tables; 0: what these tokens need
  bool has_cache = true;
  DType dtype = DType::bf16;
  AttentionForm attention = AttentionForm::plain;
};

// A part of one decoder layer alone. Inputs: "x", [B * tokens, hidden_size]; those of
// gemma3_part_parameters(); with attention the tables of the kind; with a cache "position",
// "layers.0.keys" and "layers.0.values". Outputs: "y", like x; the caches as they are then.
Graph gemma3_part_graph(const Gemma3Config& config, const Gemma3PartOptions& options);
std::vector<Parameter> gemma3_part_parameters(const Gemma3Config& config, Gemma3Part part);

}  // namespace ridgeline

// The sizes and settings of a Gemma-3 text model, by name or from its config.json:
//
//   const Gemma3Config config = gemma3_config("270m");
//   const Gemma3Config other = read_gemma3_config("gemma-3-4b-it/config.json");
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "graph/dtype.h"

namespace ridgeline {

enum class Gemma3Layer : uint8_t {
  sliding,  // sees the newest `sliding_window` tokens, its own among them
  full,     // sees all tokens
};

// Angles of positions p: p / factor * theta^(-2k / head_dim).
struct Gemma3Rope {
  double theta = 1e4;
  double factor = 1;
  bool operator==(const Gemma3Rope&) const = default;
};

// Defaults are those of the Hugging Face class, which sparse files rely on.
struct Gemma3Config {
  std::string name = "custom";
  int64_t vocabulary = 262208;
  int64_t hidden_size = 2304;
  int64_t intermediate_size = 9216;
  int64_t heads = 8;
  int64_t key_heads = 4;
  int64_t head_dim = 256;
  int64_t sliding_window = 4096;
  int64_t max_positions = 131072;
  std::vector<Gemma3Layer> layers = {};
  Gemma3Rope full_rope = {.theta = 1e6};
  Gemma3Rope sliding_rope = {.theta = 1e4};
  double query_scalar = 256;  // scores are divided by its root
  double norm_epsilon = 1e-6;
  double initializer_range = 0.02;
  std::optional<double> score_cap = {};  // cap tanh(x / cap) of scores, and of logits
  std::optional<double> logit_cap = {};
  bool tied_head = true;  // logits use the embedding's weight
  DType dtype = DType::bf16;
  std::optional<int64_t> bos = 2;
  std::vector<int64_t> eos = {1};  // any of them ends a text

  int64_t layer_count() const { return static_cast<int64_t>(layers.size()); }
  int64_t groups() const { return heads / key_heads; }  // query heads that share a key head
  const Gemma3Rope& rope(Gemma3Layer layer) const {
    return layer == Gemma3Layer::full ? full_rope : sliding_rope;
  }
};

// The sizes that have names: 270m, 1b, 4b (its text model).
std::span<const Gemma3Config> gemma3_sizes();
// Throws a usage error that lists the names.
Gemma3Config gemma3_config(std::string_view name);

// Throws a usage error that names the key, what it has and what was expected, for any setting that
// these graphs do not implement.
Gemma3Config parse_gemma3_config(const Json& json);
Gemma3Config read_gemma3_config(const std::filesystem::path& path);
// In the format of transformers and of parse_gemma3_config().
Json gemma3_config_json(const Gemma3Config& config);
// Looks up what a user types: a named size, or a file, which is named after itself, or after its
// folder if it is a config.json, as that of every published model.
Gemma3Config find_gemma3_config(const std::string& word);

// Throws a usage error for an invalid configuration, or one too large to count.
void check(const Gemma3Config& config);

// Every sixth layer is full for a pattern of 6.
std::vector<Gemma3Layer> gemma3_layers(int64_t layers, int64_t pattern);

}  // namespace ridgeline

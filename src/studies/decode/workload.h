// A workload of the decode study: a part of a Gemma-3 layer, in one phase, with or without a cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "compile/lower.h"
#include "models/gemma3_cache.h"
#include "studies/choices.h"
#include "studies/flags.h"

namespace ridgeline {

struct LayerWorkload {
  Gemma3Config config;
  std::string config_word = "270m";  // as given: a size or a file
  Gemma3Part part = Gemma3Part::layer;
  Gemma3Layer kind = Gemma3Layer::full;
  bool decodes = false;  // one more token per sequence; false: the whole prompt
  bool has_cache = true;
  int64_t prompt = 128;
  int64_t batch_size = 1;
  DType dtype = DType::bf16;
  Mode mode = Mode::compiled;

  // The tokens of one sequence that a call processes, and the positions of the first and the last.
  // Decoding without a cache computes the whole sequence again.
  int64_t tokens() const { return !decodes ? prompt : has_cache ? 1 : prompt + 1; }
  int64_t first() const { return decodes && has_cache ? prompt : 0; }
  int64_t last() const { return first() + tokens() - 1; }
  // The tokens of all sequences that a call adds for its user.
  int64_t new_tokens() const { return batch_size * (decodes ? 1 : prompt); }
};

struct LayerPartInfo {
  Gemma3Part part;
  std::string_view name;
};
extern const Choices<LayerPartInfo> kLayerParts;
inline std::string_view name(Gemma3Part part) {
  return kLayerParts[part].name;
}
std::string_view name(Gemma3Layer kind);  // "full", "sliding"

// The study's axes; every combination is a row.
struct LayerMatrix {
  Words configs = {"270m"};
  Words parts = names_of(kLayerParts);
  Words phases = {"prefill", "decode"};
  Words caches = {"on", "off"};
  Words kinds = {"full"};
  std::vector<int64_t> prompts = {128, 1024};
  std::vector<int64_t> batch_sizes = {1, 4, 16, 64};
  Words dtypes = {"bf16"};
  Words modes = {"compiled"};
};
// Throws a usage error for an unknown name, a prompt beyond the model's positions, or tf32.
std::vector<LayerWorkload> expand_matrix(const LayerMatrix& matrix);

Gemma3PartOptions part_options(const LayerWorkload& workload);
Graph layer_graph(const LayerWorkload& workload);
CompileOptions layer_compile_options(const LayerWorkload& workload);

Json workload_json(const LayerWorkload& workload);
std::string label(const LayerWorkload& workload);  // "mlp decode cache=on L=128 batch=4 270m bf16"
std::string to_command(const LayerWorkload& workload);

}  // namespace ridgeline

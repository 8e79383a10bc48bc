#include "models/gemma3_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/closest.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr int64_t kLargestConfig = 1 << 20;  // bytes of config.json
constexpr int64_t kPattern = 6;              // of the whole family

// Limits far beyond any model, below which no product of sizes overflows.
constexpr int64_t kMostLayers = 1024;
constexpr int64_t kMostHeads = 4096;
constexpr int64_t kWidestHead = 4096;
constexpr int64_t kWidestLayer = 1 << 20;
constexpr int64_t kMostPositions = 1 << 24;  // also of tokens: integers that fp32 holds

Error refused(std::string_view key, const std::string& got, const std::string& expected) {
  return {ErrorKind::usage, fmt::format("{} is {}, expected {}", key, got, expected),
          "the model is none of the Gemma-3 text models that are supported"};
}

std::string shown(const Json& value) {
  return printable(value.dump(), 60);
}

// One object of the file, whose keys are asked for by name; null counts as missing.
class Keys {
 public:
  // `fallback`, if any, is asked where a key is missing: what stands around a nested object.
  explicit Keys(const Json& json, const Json* fallback = nullptr)
      : json_(json), fallback_(fallback) {}

  const Json* find(std::string_view key) const {
    const Json* found = json_.find_key(key);
    return found != nullptr && !found->is_null() ? found : nullptr;
  }
  // Also of the object around this one.
  const Json* find_outside(std::string_view key) const {
    if (const Json* found = find(key)) return found;
    return fallback_ == nullptr ? nullptr : Keys(*fallback_).find(key);
  }

  void read_whole(std::string_view key, int64_t most, int64_t& to) const {
    if (const Json* found = find(key)) to = whole(key, *found, 1, most);
  }
  static int64_t whole(std::string_view key, const Json& value, int64_t least, int64_t most) {
    const bool fits = value.is_number_unsigned() &&
                      value.get<uint64_t>() <= static_cast<uint64_t>(most) &&
                      value.get<int64_t>() >= least;
    if (!fits)
      throw refused(key, shown(value), fmt::format("a whole number from {} to {}", least, most));
    return value.get<int64_t>();
  }
  bool read_positive(std::string_view key, double& to) const {
    const Json* found = find(key);
    if (found != nullptr) to = positive(key, *found);
    return found != nullptr;
  }
  static double positive(std::string_view key, const Json& value) {
    const double number = value.is_number() ? value.get<double>() : 0;
    // Beyond these, fp32 would not hold it or its inverse.
    if (!(number >= 1e-30 && number <= 1e30)) throw refused(key, shown(value), "a positive number");
    return number;
  }
  void expect_false(std::string_view key) const {
    if (const Json* found = find(key); found != nullptr && *found != Json(false))
      throw refused(key, shown(*found), "false");
  }

 private:
  const Json& json_;
  const Json* fallback_;
};

std::optional<int64_t> pattern_of(const Keys& keys) {
  std::optional<int64_t> pattern;
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    int64_t found = 0;
    keys.read_whole(key, kMostLayers, found);
    if (found == 0) continue;
    if (pattern && *pattern != found)
      throw refused(key, std::to_string(found),
                    fmt::format("{}, as sliding_window_pattern says", *pattern));
    pattern = found;
  }
  return pattern;
}

std::vector<Gemma3Layer> layers_of(const Keys& keys, int64_t count) {
  const std::optional<int64_t> pattern = pattern_of(keys);
  const Json* types = keys.find("layer_types");
  if (types == nullptr) return gemma3_layers(count, pattern.value_or(kPattern));
  if (!types->is_array() || types->size() != static_cast<size_t>(count))
    throw refused("layer_types",
                  types->is_array() ? fmt::format("a list of {}", types->size()) : shown(*types),
                  fmt::format("a list of {}, one for each of num_hidden_layers", count));
  std::vector<Gemma3Layer> layers;
  for (const Json& type : *types) {
    const bool is_full = type == Json("full_attention");
    if (!is_full && type != Json("sliding_attention"))
      throw refused("layer_types", shown(type), "sliding_attention or full_attention");
    layers.push_back(is_full ? Gemma3Layer::full : Gemma3Layer::sliding);
  }
  // transformers writes the other key, with its default, beside any layer_types.
  if (keys.find("sliding_window_pattern") && layers != gemma3_layers(count, *pattern))
    throw refused("layer_types", "another order",
                  fmt::format("every {}th layer full, as the pattern says", *pattern));
  return layers;
}

// One of the objects that describe angles. What it leaves out stays as it is in `rope`.
void read_rope(const std::string& place, const Json& json, Gemma3Rope& rope) {
  if (!json.is_object()) throw refused(place, shown(json), "an object");
  const Keys keys(json);
  std::string type = "default";
  for (const auto& [key, value] : json.items()) {
    const std::string full_key = place + "." + printable(key, 40);
    const bool is_type = key == "rope_type" || key == "type";
    if (is_type && value != Json("default") && value != Json("linear"))
      throw refused(full_key, shown(value), "default or linear");
    if (is_type) type = value.text();
    const bool is_known = is_type || key == "factor" || key == "rope_theta" || value.is_null();
    if (!is_known) throw refused(full_key, shown(value), "no such key");
  }
  keys.read_positive("rope_theta", rope.theta);
  double factor = 1;
  const bool has_factor = keys.read_positive("factor", factor);
  if (type == "linear" && (!has_factor || factor < 1))
    throw refused(place + ".factor", has_factor ? fmt::format("{}", factor) : "missing",
                  "a number of at least 1 for linear scaling");
  if (type != "linear" && factor != 1)
    throw refused(place + ".factor", fmt::format("{}", factor), "none without linear scaling");
  rope.factor = factor;
}

void read_ropes(const Keys& keys, Gemma3Config& config) {
  const bool has_theta = keys.read_positive("rope_theta", config.full_rope.theta);
  const bool has_local = keys.read_positive("rope_local_base_freq", config.sliding_rope.theta);
  const Json* scaling = keys.find("rope_scaling");
  if (scaling != nullptr) {
    Gemma3Rope scaled = config.full_rope;
    read_rope("rope_scaling", *scaling, scaled);
    config.full_rope.factor = scaled.factor;
  }
  const Json* both = keys.find("rope_parameters");
  if (both == nullptr) return;
  if (!both->is_object()) throw refused("rope_parameters", shown(*both), "an object");
  const Gemma3Config older = config;
  for (const auto& [key, value] : both->items()) {
    const std::string place = "rope_parameters." + printable(key, 40);
    if (key != "full_attention" && key != "sliding_attention")
      throw refused(place, shown(value), "full_attention and sliding_attention alone");
    const bool is_full = key == "full_attention";
    if (!value.is_null()) read_rope(place, value, is_full ? config.full_rope : config.sliding_rope);
  }
  // Files that were written for both generations of the library say everything twice.
  const auto agree = [](std::string_view key, bool is_given, double before, double after) {
    if (is_given && before != after)
      throw refused(key, fmt::format("{}", before),
                    fmt::format("{}, as rope_parameters has", after));
  };
  agree("rope_theta", has_theta, older.full_rope.theta, config.full_rope.theta);
  agree("rope_local_base_freq", has_local, older.sliding_rope.theta, config.sliding_rope.theta);
  agree("rope_scaling.factor", scaling != nullptr, older.full_rope.factor, config.full_rope.factor);
}

constexpr std::pair<const char*, DType> kDtypes[] = {
    {"bfloat16", DType::bf16}, {"float16", DType::f16}, {"float32", DType::f32}};

DType dtype_of(std::string_view key, const Json& value) {
  for (const auto& [name, dtype] : kDtypes)
    if (value == Json(name)) return dtype;
  throw refused(key, shown(value), "bfloat16, float16 or float32");
}

void read_tokens(const Keys& keys, Gemma3Config& config) {
  const auto token = [&](std::string_view key, const Json& value) {
    return Keys::whole(key, value, 0, config.vocabulary - 1);
  };
  if (const Json* bos = keys.find_outside("bos_token_id")) config.bos = token("bos_token_id", *bos);
  const Json* eos = keys.find_outside("eos_token_id");
  if (eos == nullptr) return;
  config.eos.clear();
  if (!eos->is_array()) config.eos.push_back(token("eos_token_id", *eos));
  constexpr size_t kMostEnds = 64;
  if (eos->is_array() && eos->size() > kMostEnds)
    throw refused("eos_token_id", fmt::format("a list of {}", eos->size()),
                  fmt::format("at most {}", kMostEnds));
  for (size_t i = 0; eos->is_array() && i < eos->size(); ++i)
    config.eos.push_back(token("eos_token_id", eos->at(i)));
}

// What these graphs do not compute.
void refuse_others(const Keys& keys) {
  for (const char* key : {"attention_bias", "use_bidirectional_attention"}) keys.expect_false(key);
  for (const char* key : {"hidden_activation", "hidden_act"})
    if (const Json* found = keys.find(key); found && *found != Json("gelu_pytorch_tanh"))
      throw refused(key, shown(*found), "gelu_pytorch_tanh");
  if (const Json* found = keys.find_outside("quantization_config"))
    throw refused("quantization_config", shown(*found), "none: weights are read as they are");
}

void read_text_config(const Keys& keys, Gemma3Config& config) {
  refuse_others(keys);
  keys.read_whole("vocab_size", kMostPositions, config.vocabulary);
  keys.read_whole("hidden_size", kWidestLayer, config.hidden_size);
  keys.read_whole("intermediate_size", kWidestLayer, config.intermediate_size);
  keys.read_whole("num_attention_heads", kMostHeads, config.heads);
  keys.read_whole("num_key_value_heads", kMostHeads, config.key_heads);
  keys.read_whole("head_dim", kWidestHead, config.head_dim);
  keys.read_whole("sliding_window", kMostPositions, config.sliding_window);
  keys.read_whole("max_position_embeddings", kMostPositions, config.max_positions);
  int64_t layers = 26;  // of the class
  keys.read_whole("num_hidden_layers", kMostLayers, layers);
  config.layers = layers_of(keys, layers);
  read_ropes(keys, config);
  keys.read_positive("query_pre_attn_scalar", config.query_scalar);
  keys.read_positive("rms_norm_eps", config.norm_epsilon);
  keys.read_positive("initializer_range", config.initializer_range);
  for (const auto& [key, cap] : {std::pair{"attn_logit_softcapping", &config.score_cap},
                                 std::pair{"final_logit_softcapping", &config.logit_cap}})
    if (const Json* found = keys.find(key)) *cap = Keys::positive(key, *found);
  if (const Json* tied = keys.find_outside("tie_word_embeddings")) {
    if (!tied->is_boolean()) throw refused("tie_word_embeddings", shown(*tied), "true or false");
    config.tied_head = tied->get<bool>();
  }
  for (const char* key : {"torch_dtype", "dtype"})
    if (const Json* found = keys.find_outside(key)) config.dtype = dtype_of(key, *found);
  read_tokens(keys, config);
}

}  // namespace

std::vector<Gemma3Layer> gemma3_layers(int64_t layers, int64_t pattern) {
  std::vector<Gemma3Layer> types;
  for (int64_t i = 1; i <= layers; ++i)
    types.push_back(i % pattern == 0 ? Gemma3Layer::full : Gemma3Layer::sliding);
  return types;
}

std::span<const Gemma3Config> gemma3_sizes() {
  static const std::array<Gemma3Config, 3> kSizes = {{
      {.name = "270m",
       .vocabulary = 262144,
       .hidden_size = 640,
       .intermediate_size = 2048,
       .heads = 4,
       .key_heads = 1,
       .sliding_window = 512,
       .max_positions = 32768,
       .layers = gemma3_layers(18, kPattern)},
      {.name = "1b",
       .vocabulary = 262144,
       .hidden_size = 1152,
       .intermediate_size = 6912,
       .heads = 4,
       .key_heads = 1,
       .sliding_window = 512,
       .max_positions = 32768,
       .layers = gemma3_layers(26, kPattern)},
      {.name = "4b",
       .hidden_size = 2560,
       .intermediate_size = 10240,
       .sliding_window = 1024,
       .layers = gemma3_layers(34, kPattern),
       .full_rope = {.theta = 1e6, .factor = 8}},
  }};
  return kSizes;
}

Gemma3Config gemma3_config(std::string_view name) {
  for (const Gemma3Config& config : gemma3_sizes())
    if (config.name == name) return config;
  throw unknown_name(name, "a Gemma-3 model", gemma3_sizes());
}

void check(const Gemma3Config& config) {
  for (const auto& [name, size, most] :
       {std::tuple{"vocabulary", config.vocabulary, kMostPositions},
        {"width", config.hidden_size, kWidestLayer},
        {"feed-forward width", config.intermediate_size, kWidestLayer},
        {"number of layers", config.layer_count(), kMostLayers},
        {"number of heads", config.heads, kMostHeads},
        {"number of key heads", config.key_heads, kMostHeads},
        {"head width", config.head_dim, kWidestHead},
        {"sliding window", config.sliding_window, kMostPositions},
        {"number of positions", config.max_positions, kMostPositions}})
    if (size < 1 || size > most)
      throw refused(fmt::format("the {}", name), std::to_string(size),
                    fmt::format("1 to {}", most));
  if (config.heads % config.key_heads != 0)
    throw refused("num_attention_heads", std::to_string(config.heads),
                  fmt::format("a multiple of the {} of num_key_value_heads", config.key_heads));
  if (config.head_dim % 2 != 0)
    throw refused("head_dim", std::to_string(config.head_dim), "an even number");
}

Gemma3Config parse_gemma3_config(const Json& json) {
  if (!json.is_object()) throw refused("the configuration", json.type_name(), "an object");
  const Keys outer(json);
  const Json* type = outer.find("model_type");
  const bool has_vision = type != nullptr && *type == Json("gemma3");
  if (!has_vision && (type == nullptr || *type != Json("gemma3_text")))
    throw refused("model_type", type == nullptr ? "missing" : shown(*type),
                  "gemma3_text or gemma3");
  Gemma3Config config;
  if (has_vision) {
    const Json* text = outer.find("text_config");
    if (text == nullptr || !text->is_object())
      throw refused("text_config", text == nullptr ? "missing" : shown(*text), "an object");
    const Keys inner(*text, &json);
    if (const Json* nested = inner.find("model_type"); nested && *nested != Json("gemma3_text"))
      throw refused("text_config.model_type", shown(*nested), "gemma3_text");
    read_text_config(inner, config);
  } else {
    read_text_config(outer, config);
  }
  check(config);
  return config;
}

Gemma3Config read_gemma3_config(const std::filesystem::path& path) {
  try {
    return parse_gemma3_config(Json::parse(read_file(path, kLargestConfig)));
  } catch (const JsonError& error) {
    throw Error(ErrorKind::usage, fmt::format("'{}' {}", path.string(), error.what()),
                "get the file again");
  } catch (const Error& error) {
    throw error.at(path.string());
  }
}

Json gemma3_config_json(const Gemma3Config& config) {
  const auto rope = [](const Gemma3Rope& of) {
    Json json = {{"rope_type", of.factor == 1 ? "default" : "linear"}, {"rope_theta", of.theta}};
    if (of.factor != 1) json["factor"] = of.factor;
    return json;
  };
  Json layers = Json::array();
  for (const Gemma3Layer layer : config.layers)
    layers.push_back(layer == Gemma3Layer::full ? "full_attention" : "sliding_attention");
  Json json = {{"architectures", {"Gemma3ForCausalLM"}},
               {"model_type", "gemma3_text"},
               {"vocab_size", config.vocabulary},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.layer_count()},
               {"num_attention_heads", config.heads},
               {"num_key_value_heads", config.key_heads},
               {"head_dim", config.head_dim},
               {"hidden_activation", "gelu_pytorch_tanh"},
               {"max_position_embeddings", config.max_positions},
               {"rms_norm_eps", config.norm_epsilon},
               {"initializer_range", config.initializer_range},
               {"sliding_window", config.sliding_window},
               {"layer_types", std::move(layers)},
               {"rope_parameters",
                {{"full_attention", rope(config.full_rope)},
                 {"sliding_attention", rope(config.sliding_rope)}}},
               {"tie_word_embeddings", config.tied_head},
               {"eos_token_id", config.eos}};
  for (const auto& [name, dtype] : kDtypes)
    if (dtype == config.dtype) json["torch_dtype"] = name;
  // transformers takes a whole number alone.
  const auto scalar = static_cast<int64_t>(config.query_scalar);
  const bool is_whole = static_cast<double>(scalar) == config.query_scalar;
  json["query_pre_attn_scalar"] = is_whole ? Json(scalar) : Json(config.query_scalar);
  if (config.bos) json["bos_token_id"] = *config.bos;
  if (config.score_cap) json["attn_logit_softcapping"] = *config.score_cap;
  if (config.logit_cap) json["final_logit_softcapping"] = *config.logit_cap;
  return json;
}

Gemma3Config find_gemma3_config(const std::string& word) {
  const bool is_size =
      std::ranges::find(gemma3_sizes(), word, &Gemma3Config::name) != gemma3_sizes().end();
  const bool is_file = word.ends_with(".json") || word.find('/') != std::string::npos ||
                       std::filesystem::exists(word);
  if (is_size || !is_file) return gemma3_config(word);
  Gemma3Config config = read_gemma3_config(word);
  const std::filesystem::path file = std::filesystem::absolute(word).lexically_normal();
  config.name = file.stem().string();
  const std::string folder = file.parent_path().filename().string();
  if (file.filename() == "config.json" && !folder.empty()) config.name = folder;
  return config;
}

}  // namespace ridgeline

#include "models/gemma3_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/scope.h"

namespace ridgeline {
namespace {

struct LayerCache {
  Tensor keys, values;
};

void check_cache(const Gemma3Config& config, const Gemma3CacheOptions& options) {
  check(config);
  constexpr int64_t kMost = 1 << 24;
  for (const auto& [name, size, least] : {std::tuple{"batch size", options.batch_size, 1},
                                          {"number of tokens", options.tokens, 1},
                                          {"capacity", options.capacity, 1},
                                          {"chunk", options.chunk, 0},
                                          {"history", options.history, 0}})
    if (size < least || size > kMost)
      throw Error(ErrorKind::usage,
                  fmt::format("the {} is {}, expected {} to {}", name, size, least, kMost));
  if (options.tokens > options.capacity)
    throw Error(ErrorKind::usage, fmt::format("{} tokens, expected at most the capacity of {}",
                                              options.tokens, options.capacity));
  if (options.greedy && !options.last_only)
    throw Error(ErrorKind::usage, "the next token comes from the last logits alone");
  if (options.history > 0 && !options.greedy)
    throw Error(ErrorKind::usage, "a history is kept of greedy tokens alone");
}

// Caches of layers, and attention that stores into them and reads them.
class CachedLayers {
 public:
  CachedLayers(const Gemma3Config& config, const Gemma3CacheOptions& options)
      : config_(config), options_(options) {
    check_cache(config, options);
  }

 protected:
  void add_caches() {
    position_ = Tensor(graph_, graph_.input({"position", Role::step_scalars}, {DType::i32, {1}}));
    for (int64_t layer = 0; layer < config_.layer_count(); ++layer) {
      const int64_t slots = gemma3_cache_slots(config_, kind(layer), options_);
      const TensorType type{options_.dtype,
                            {options_.batch_size, config_.key_heads, slots, config_.head_dim}};
      const auto cache = [&](const char* what) {
        return Tensor(graph_, graph_.input({cache_name(layer, what), Role::cache}, type));
      };
      caches_.push_back({cache("keys"), cache("values")});
    }
  }

  // Rows of a table, and attention, for tokens at positions 0, 1, ...
  Tensor first_rows(const Tensor& table) const {
    return !table || options_.tokens == options_.capacity ? table
                                                          : slice(table, 0, 0, options_.tokens);
  }
  Gemma3Attend attend_and_store() {
    return [this, attend = gemma3_self_attention(config_, options_.attention)](
               int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
      append_to(layer, k, v);
      return attend(layer, q, k, v);
    };
  }

  // The same for tokens at the position and behind it.
  auto rows_at_position() {
    const Tensor rows = options_.tokens == 1 ? position_ : cast(query_positions(), DType::i32);
    return [rows](const Tensor& table) { return table ? gather(table, rows) : table; };
  }
  Gemma3Attend attend_to_cache() {
    return [this](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
      const LayerCache cache = append_to(layer, k, v);
      return options_.attention == AttentionForm::fused ? fused(layer, q, cache)
                                                        : plain(layer, q, cache);
    };
  }

  template <class TablesOf>
  static Gemma3Tables tables_of(const Gemma3Tables& tables, TablesOf of) {
    const auto both = [&](const RopeTables& each) {
      return RopeTables{of(each.cos), of(each.sin)};
    };
    return {both(tables.full), both(tables.sliding)};
  }

  Gemma3Config config_;
  Gemma3CacheOptions options_;
  Graph graph_;
  Tensor position_;

 private:
  Gemma3Layer kind(int64_t layer) const { return config_.layers[static_cast<size_t>(layer)]; }
  int64_t window(int64_t layer) const {
    const bool slides = kind(layer) == Gemma3Layer::sliding;
    return slides && config_.sliding_window < options_.capacity ? config_.sliding_window : 0;
  }
  static std::string cache_name(int64_t layer, const char* what) {
    return fmt::format("layers.{}.{}", layer, what);
  }

  LayerCache append_to(int64_t layer, const Tensor& k, const Tensor& v) {
    const ScopeGuard scope(graph_, "cache");
    const LayerCache& cache = caches_[static_cast<size_t>(layer)];
    const LayerCache grown{append(cache.keys, k, position_), append(cache.values, v, position_)};
    graph_.mark_output(cache_name(layer, "keys"), grown.keys.value());
    graph_.mark_output(cache_name(layer, "values"), grown.values.value());
    return grown;
  }

  // Where the new tokens stand, fp32 [tokens]: exact up to 2^24.
  Tensor query_positions() {
    return cast(position_, DType::f32) + cast(iota(graph_, options_.tokens), DType::f32);
  }

  Tensor fused(int64_t layer, const Tensor& q, const LayerCache& cache) {
    if (config_.score_cap)
      throw Error(ErrorKind::unsupported, "attention over a cache has no cap of scores in one node",
                  "choose the plain form");
    const AttentionSpec spec{.scale = 1 / std::sqrt(config_.query_scalar),
                             .mask = {.causal = true, .window = window(layer)}};
    return cached_attention(q, cache.keys, cache.values, position_, spec).output.named("output");
  }

  // 0 where a query sees what a slot holds, else -infinity: [tokens, slots], one for all layers of
  // a kind.
  Tensor mask(int64_t layer, int64_t slots) {
    const Tensor query = reshape(query_positions(), {options_.tokens, 1});
    const Tensor held = cast(ring_positions(position_, options_.tokens, slots), DType::f32);
    const Tensor shown = Tensor(graph_, graph_.constant(0, options_.dtype));
    const Tensor hidden = scalar(shown, -std::numeric_limits<double>::infinity());
    Tensor seen = where(less_equal(held, query), shown, hidden);
    seen = where(less_equal(scalar(held, 0), held), seen, hidden);
    if (window(layer) == 0) return seen;
    const Tensor oldest = query - static_cast<double>(window(layer));
    return where(less(oldest, held), seen, hidden);
  }

  Tensor plain(int64_t layer, const Tensor& q, const LayerCache& cache) {
    return gemma3_plain_attention(config_, q, cache.keys, cache.values, [&](const Tensor& scores) {
      return scores + mask(layer, scores.shape().back());
    });
  }

  std::vector<LayerCache> caches_;
};

class CachedModel : CachedLayers {
 public:
  CachedModel(const Gemma3Config& config, const Gemma3CacheOptions& options)
      : CachedLayers(config, options) {
    const TensorType ids{DType::i32, {options.batch_size, options.tokens}};
    inputs_ = gemma3_inputs(graph_, config, ids, options.dtype, options.capacity);
    add_caches();
  }

  Graph prefill() {
    return run([&](const Tensor& table) { return first_rows(table); }, attend_and_store(), false);
  }

  Graph decode() { return run(rows_at_position(), attend_to_cache(), options_.tokens == 1); }

 private:
  template <class TablesOf>
  Graph run(TablesOf of, const Gemma3Attend& attend, bool feeds_back) {
    const Gemma3Tables tables = tables_of(inputs_.tables, of);
    const Tensor logits = gemma3_logits(config_, inputs_, tables, attend, options_.last_only);
    graph_.mark_output("logits", logits.value());
    finish(logits, feeds_back);
    verify(graph_);
    return std::move(graph_);
  }

  // The next token, and the position behind it.
  void finish(const Tensor& logits, bool feeds_back) {
    const ScopeGuard scope(graph_, "next");
    Tensor last = options_.tokens > 1 ? advance(position_, options_.tokens - 1) : position_;
    if (options_.greedy) {
      const Tensor next = argmax(logits);  // [batch, 1]
      const auto as_slots = [&](const Tensor& ids) {
        return reshape(ids, {ids.shape()[0], ids.shape()[1], 1});
      };
      if (options_.history > 0) {
        const TensorType type{DType::i32, {options_.batch_size, options_.history}};
        const Tensor history = input(graph_, "history", type);
        store("history", as_slots(history), as_slots(next), last, type.shape);
      }
      if (feeds_back)
        store("tokens", as_slots(inputs_.tokens), as_slots(next), last, next.shape());
      else
        graph_.mark_output("next", next.value());
    }
    graph_.mark_output("position", advance(last, 1).value());
  }

  void store(const char* name, const Tensor& ring, const Tensor& rows, const Tensor& at,
             const Shape& shape) {
    graph_.mark_output(name, reshape(append(ring, rows, at), shape).value());
  }

  Gemma3Inputs inputs_;
};

Gemma3CacheOptions cache_options_of(const Gemma3PartOptions& options) {
  return {.batch_size = options.batch_size,
          .tokens = options.tokens,
          .capacity = std::max(options.capacity, options.before + options.tokens),
          .chunk = options.before == 0 ? 1 : options.tokens,
          .dtype = options.dtype,
          .attention = options.attention};
}

class LayerPart : CachedLayers {
 public:
  LayerPart(const Gemma3Config& one_layer, const Gemma3PartOptions& options)
      : CachedLayers(one_layer, cache_options_of(options)), part_(options) {}

  Graph build() {
    const bool attends = part_.part != Gemma3Part::mlp, feeds = part_.part != Gemma3Part::attention;
    const int64_t rows = part_.batch_size * part_.tokens;
    Tensor x = input(graph_, "x", {part_.dtype, {rows, config_.hidden_size}});
    Gemma3Tables tables;
    if (attends) {
      RopeTables& own = part_.kind == Gemma3Layer::full ? tables.full : tables.sliding;
      const TensorType type{part_.dtype, {options_.capacity, config_.head_dim / 2}};
      own.cos = input(graph_, fmt::format("{}.cos", table_scope(part_.kind)), type);
      own.sin = input(graph_, fmt::format("{}.sin", table_scope(part_.kind)), type);
    }
    std::vector<Tensor> tensors;
    for (const Parameter& each : gemma3_part_parameters(config_, Gemma3Part::layer))
      tensors.push_back((is_of_attention(each.name) ? attends : feeds)
                            ? parameter(graph_, each.name, {part_.dtype, each.shape})
                            : Tensor());
    const Gemma3LayerWeights weights = gemma3_layer_weights(tensors);
    if (attends) x = attended(x, weights, tables);
    if (feeds) x = gemma3_mlp_part(config_, 0, x, weights);
    graph_.mark_output("y", x.value());
    verify(graph_);
    return std::move(graph_);
  }

  static bool is_of_attention(std::string_view name) {
    const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    return has("self_attn") || has("input_layernorm") || has("post_attention_layernorm");
  }

 private:
  Tensor attended(const Tensor& x, const Gemma3LayerWeights& weights, const Gemma3Tables& tables) {
    const auto with = [&](const Gemma3Tables& own, const Gemma3Attend& attend) {
      return gemma3_attention_part(config_, 0, part_.batch_size, x, weights, own, attend);
    };
    const auto first = [&](const Tensor& table) { return first_rows(table); };
    if (!part_.has_cache)
      return with(tables_of(tables, first), gemma3_self_attention(config_, part_.attention));
    add_caches();
    if (part_.before == 0) return with(tables_of(tables, first), attend_and_store());
    return with(tables_of(tables, rows_at_position()), attend_to_cache());
  }

  Gemma3PartOptions part_;
};

}  // namespace

int64_t gemma3_cache_slots(const Gemma3Config& config, Gemma3Layer layer,
                           const Gemma3CacheOptions& options) {
  if (layer == Gemma3Layer::full) return options.capacity;
  const int64_t chunk = options.chunk == 0 ? options.tokens : options.chunk;
  return std::min(options.capacity, config.sliding_window + chunk - 1);
}

Bytes gemma3_cache_bytes(const Gemma3Config& config, const Gemma3CacheOptions& options) {
  int64_t slots = 0;
  for (const Gemma3Layer layer : config.layers) slots += gemma3_cache_slots(config, layer, options);
  return {2 * options.batch_size * slots * config.key_heads * config.head_dim *
          info(options.dtype).size};
}

Gemma3TokenBytes gemma3_cache_bytes_per_token(const Gemma3Config& config, DType dtype) {
  const auto held = [&](int64_t tokens) {
    return gemma3_cache_bytes(config, {.capacity = tokens, .dtype = dtype});
  };
  return {held(1), held(config.sliding_window + 1) - held(config.sliding_window)};
}

Graph gemma3_prefill_graph(const Gemma3Config& config, const Gemma3CacheOptions& options) {
  Gemma3CacheOptions own = options;
  if (own.chunk == 0) own.chunk = 1;  // it reads no ring
  return CachedModel(config, own).prefill();
}

Graph gemma3_decode_graph(const Gemma3Config& config, const Gemma3CacheOptions& options) {
  if (options.chunk != 0 && options.chunk < options.tokens)
    throw Error(ErrorKind::usage, fmt::format("{} tokens at once, expected at most the chunk of {}",
                                              options.tokens, options.chunk));
  return CachedModel(config, options).decode();
}

std::vector<Parameter> gemma3_part_parameters(const Gemma3Config& config, Gemma3Part part) {
  Gemma3Config one_layer = config;
  one_layer.layers = {Gemma3Layer::full};
  std::vector<Parameter> own;
  for (const Parameter& each : gemma3_parameters(one_layer))
    if (each.name.starts_with("model.layers.") &&
        (part == Gemma3Part::layer ||
         LayerPart::is_of_attention(each.name) == (part == Gemma3Part::attention)))
      own.push_back(each);
  return own;
}

Graph gemma3_part_graph(const Gemma3Config& config, const Gemma3PartOptions& options) {
  if (options.before > 0 && !options.has_cache)
    throw Error(
        ErrorKind::usage,
        fmt::format("{} tokens came before, and there is no cache that holds them", options.before),
        "give all tokens at once");
  const int64_t positions = options.before + options.tokens;
  if (positions > config.max_positions)
    throw Error(ErrorKind::usage,
                fmt::format("{} positions, expected at most {}", positions, config.max_positions),
                "the model has seen no later ones; shorten the prompt");
  Gemma3Config one_layer = config;
  one_layer.layers = {options.kind};
  return LayerPart(one_layer, options).build();
}

}  // namespace ridgeline

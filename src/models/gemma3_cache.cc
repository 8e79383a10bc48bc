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

class CachedModel {
 public:
  CachedModel(const Gemma3Config& config, const Gemma3CacheOptions& options)
      : config_(config), options_(options) {
    check_cache(config, options);
    const TensorType ids{DType::i32, {options.batch_size, options.tokens}};
    inputs_ = gemma3_inputs(graph_, config, ids, options.dtype, options.capacity);
    position_ = Tensor(graph_, graph_.input({"position", Role::step_scalars}, {DType::i32, {1}}));
    for (int64_t layer = 0; layer < config.layer_count(); ++layer) {
      const int64_t slots = gemma3_cache_slots(config, kind(layer), options);
      const TensorType type{options.dtype,
                            {options.batch_size, config.key_heads, slots, config.head_dim}};
      const auto cache = [&](const char* what) {
        return Tensor(graph_, graph_.input({cache_name(layer, what), Role::cache}, type));
      };
      caches_.push_back({cache("keys"), cache("values")});
    }
  }

  Graph prefill() {
    const Gemma3Attend attend = gemma3_self_attention(config_, options_.attention);
    const auto first = [&](const Tensor& table) {
      return !table || options_.tokens == options_.capacity ? table
                                                            : slice(table, 0, 0, options_.tokens);
    };
    const Gemma3Attend store = [&](int64_t layer, const Tensor& q, const Tensor& k,
                                   const Tensor& v) {
      append_to(layer, k, v);
      return attend(layer, q, k, v);
    };
    return run(first, store, false);
  }

  Graph decode() {
    const Tensor rows = options_.tokens == 1 ? position_ : cast(query_positions(), DType::i32);
    const auto at = [&](const Tensor& table) { return table ? gather(table, rows) : table; };
    const Gemma3Attend attend = [&](int64_t layer, const Tensor& q, const Tensor& k,
                                    const Tensor& v) {
      const LayerCache cache = append_to(layer, k, v);
      return options_.attention == AttentionForm::fused ? fused(layer, q, cache)
                                                        : plain(layer, q, cache);
    };
    return run(at, attend, options_.tokens == 1);
  }

 private:
  Gemma3Layer kind(int64_t layer) const { return config_.layers[static_cast<size_t>(layer)]; }
  int64_t window(int64_t layer) const {
    const bool slides = kind(layer) == Gemma3Layer::sliding;
    return slides && config_.sliding_window < options_.capacity ? config_.sliding_window : 0;
  }
  static std::string cache_name(int64_t layer, const char* what) {
    return fmt::format("layers.{}.{}", layer, what);
  }

  template <class TablesOf>
  Graph run(TablesOf of, const Gemma3Attend& attend, bool feeds_back) {
    const auto both = [&](const RopeTables& tables) {
      return RopeTables{of(tables.cos), of(tables.sin)};
    };
    const Gemma3Tables tables{both(inputs_.tables.full), both(inputs_.tables.sliding)};
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

  Gemma3Config config_;
  Gemma3CacheOptions options_;
  Graph graph_;
  Gemma3Inputs inputs_;
  Tensor position_;
  std::vector<LayerCache> caches_;
};

}  // namespace

int64_t gemma3_cache_slots(const Gemma3Config& config, Gemma3Layer layer,
                           const Gemma3CacheOptions& options) {
  if (layer == Gemma3Layer::full) return options.capacity;
  const int64_t chunk = options.chunk == 0 ? options.tokens : options.chunk;
  return std::min(options.capacity, config.sliding_window + chunk - 1);
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

}  // namespace ridgeline

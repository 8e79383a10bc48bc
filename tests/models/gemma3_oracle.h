// Gemma-3 in fp64 by plain loops: no graph, no kernel. And small models to try it on.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/random.h"
#include "models/gemma3.h"

namespace ridgeline::testing {

using GemmaWeights = std::map<std::string, std::vector<double>>;

// Two key heads, windows that a dozen tokens leave, angles that are scaled, two full layers.
inline Gemma3Config tiny_gemma() {
  return {.name = "tiny",
          .vocabulary = 37,
          .hidden_size = 24,
          .intermediate_size = 40,
          .heads = 4,
          .key_heads = 2,
          .head_dim = 8,
          .sliding_window = 5,
          .max_positions = 64,
          .layers = gemma3_layers(4, 2),
          .full_rope = {.theta = 1e6, .factor = 8},
          .query_scalar = 11,
          .initializer_range = 0.3};
}

// What a model begins with, but for norms, which differ from their beginning so that a forgotten
// one shows; as a tensor of this dtype holds them.
inline GemmaWeights gemma_weights(const Gemma3Config& config, uint64_t seed,
                                  DType dtype = DType::f32) {
  GemmaWeights weights;
  for (const Parameter& parameter : gemma3_parameters(config)) {
    std::vector<float> values = beginning_of(parameter, seed);
    NormalRandom random(seed, parameter.name);
    for (float& value : values) {
      if (parameter.shape.rank() == 1) value = static_cast<float>(0.3 * random.next());
      if (dtype == DType::bf16) value = bf16_to_float(float_to_bf16(value));
    }
    weights[parameter.name].assign(values.begin(), values.end());
  }
  return weights;
}

inline std::vector<int> gemma_tokens(const Gemma3Config& config, int64_t count, int factor) {
  std::vector<int> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int>((i * i * factor + 3 * i) % config.vocabulary));
  return tokens;
}

class GemmaOracle {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  GemmaOracle(const Gemma3Config& config, const GemmaWeights& weights) : c_(config), w_(weights) {}

  // Logits of every token of one sequence, [tokens][vocabulary].
  Rows run(const std::vector<int>& tokens) const {
    const auto width = static_cast<size_t>(c_.hidden_size);
    const std::vector<double>& table = w_.at("model.embed_tokens.weight");
    const double scale = static_cast<float>(std::sqrt(static_cast<double>(width)));
    Rows x;
    for (const int token : tokens) {
      const auto row = table.begin() + static_cast<long>(static_cast<size_t>(token) * width);
      x.emplace_back(row, row + static_cast<long>(width));
      for (double& value : x.back()) value *= scale;
    }
    for (int64_t layer = 0; layer < c_.layer_count(); ++layer) run_layer(layer, x);
    Rows logits;
    for (const Row& row : x) {
      logits.push_back(product(normed(row, "model.norm.weight"),
                               c_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight",
                               c_.vocabulary));
      for (double& value : logits.back())
        if (c_.logit_cap) value = *c_.logit_cap * std::tanh(value / *c_.logit_cap);
    }
    return logits;
  }

 private:
  Row product(const Row& x, const std::string& name, int64_t rows) const {
    const std::vector<double>& weight = w_.at(name);
    Row y(static_cast<size_t>(rows));
    for (size_t i = 0; i < y.size(); ++i)
      for (size_t k = 0; k < x.size(); ++k) y[i] += x[k] * weight[i * x.size() + k];
    return y;
  }

  Row normed(const Row& x, const std::string& name) const {
    const std::vector<double>& weight = w_.at(name);
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(x.size()) + c_.norm_epsilon);
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * (1 + weight[i]);
    return y;
  }

  // Heads of one token, normed and turned; without a norm's name as they are.
  Rows heads(const Row& x, const std::string& weight, int64_t count, const std::string& norm,
             const Gemma3Rope& rope, size_t position) const {
    const Row all = product(x, weight, count * c_.head_dim);
    Rows result;
    for (int64_t h = 0; h < count; ++h) {
      const auto begin = all.begin() + h * c_.head_dim;
      Row head(begin, begin + c_.head_dim);
      if (!norm.empty()) head = turned(normed(head, norm), rope, position);
      result.push_back(head);
    }
    return result;
  }

  static Row turned(const Row& x, const Gemma3Rope& rope, size_t position) {
    const size_t half = x.size() / 2;
    Row y(x.size());
    for (size_t k = 0; k < half; ++k) {
      const double angle =
          static_cast<double>(position) / rope.factor *
          std::pow(rope.theta, -2.0 * static_cast<double>(k) / static_cast<double>(x.size()));
      y[k] = x[k] * std::cos(angle) - x[half + k] * std::sin(angle);
      y[half + k] = x[half + k] * std::cos(angle) + x[k] * std::sin(angle);
    }
    return y;
  }

  void run_layer(int64_t layer, Rows& x) const {
    const auto name = [&](const char* part) {
      return fmt::format("model.layers.{}.{}.weight", layer, part);
    };
    const Gemma3Layer kind = c_.layers[static_cast<size_t>(layer)];
    std::vector<Rows> q, k, v;  // by token, then by head
    for (size_t t = 0; t < x.size(); ++t) {
      const Row from = normed(x[t], name("input_layernorm"));
      const Gemma3Rope& rope = c_.rope(kind);
      q.push_back(
          heads(from, name("self_attn.q_proj"), c_.heads, name("self_attn.q_norm"), rope, t));
      k.push_back(
          heads(from, name("self_attn.k_proj"), c_.key_heads, name("self_attn.k_norm"), rope, t));
      v.push_back(heads(from, name("self_attn.v_proj"), c_.key_heads, "", rope, t));
    }
    for (size_t t = 0; t < x.size(); ++t) {
      const bool slides = kind == Gemma3Layer::sliding;
      const auto window = static_cast<size_t>(c_.sliding_window);
      const size_t first = slides && t + 1 > window ? t + 1 - window : 0;
      Row mixed;
      for (size_t h = 0; h < q[t].size(); ++h) {
        const Row head = attended(q[t][h], k, v, h / static_cast<size_t>(c_.groups()), first, t);
        mixed.insert(mixed.end(), head.begin(), head.end());
      }
      add(x[t], normed(product(mixed, name("self_attn.o_proj"), c_.hidden_size),
                       name("post_attention_layernorm")));
      const Row from = normed(x[t], name("pre_feedforward_layernorm"));
      Row gate = product(from, name("mlp.gate_proj"), c_.intermediate_size);
      const Row up = product(from, name("mlp.up_proj"), c_.intermediate_size);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gelu(gate[i]) * up[i];
      add(x[t], normed(product(gate, name("mlp.down_proj"), c_.hidden_size),
                       name("post_feedforward_layernorm")));
    }
  }

  Row attended(const Row& q, const std::vector<Rows>& k, const std::vector<Rows>& v, size_t head,
               size_t first, size_t last) const {
    Row weights;
    double total = 0;
    for (size_t t = first; t <= last; ++t) {
      double score = 0;
      for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[t][head][i];
      score /= std::sqrt(c_.query_scalar);
      if (c_.score_cap) score = *c_.score_cap * std::tanh(score / *c_.score_cap);
      weights.push_back(std::exp(score));
      total += weights.back();
    }
    Row result(q.size());
    for (size_t t = first; t <= last; ++t)
      for (size_t i = 0; i < q.size(); ++i) result[i] += weights[t - first] / total * v[t][head][i];
    return result;
  }

  static double gelu(double x) {
    const double cubic = x + 0.044715 * x * x * x;
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * cubic));
  }
  static void add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Gemma3Config c_;
  const GemmaWeights& w_;
};

}  // namespace ridgeline::testing

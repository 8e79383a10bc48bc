#include "models/gemma3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/float16.h"
#include "graph/scope.h"
#include "graph/score_function.h"

namespace ridgeline {
namespace {

double rounded(DType dtype, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::bf16) return bf16_to_float(float_to_bf16(single));
  if (dtype == DType::f16) return f16_to_float(float_to_f16(single));
  return single;
}

// x and a number that PyTorch keeps in fp32 whatever x is: only the result is rounded.
template <class Apply>
Tensor with_number(const Tensor& x, double number, Apply apply) {
  if (rounded(x.dtype(), number) == static_cast<float>(number)) return apply(x, number);
  return cast(apply(cast(x, DType::f32), number), x.dtype());
}

Tensor scaled(const Tensor& x, double factor) {
  return with_number(x, factor, [](const Tensor& each, double by) { return each * by; });
}

Tensor capped(const Tensor& x, double cap) {
  const auto divide_by = [](const Tensor& each, double by) { return each / by; };
  return scaled(tanh(with_number(x, cap, divide_by)), cap);
}

// Weights are stored as their distance from 1.
Tensor norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const ScopeGuard scope(x.graph(), kNormScope);
  return rms_norm(x, cast(weight, DType::f32) + 1, epsilon);
}

Tensor in_layer(const Tensor& tensor, int64_t layer, const char* name) {
  return tensor.named(fmt::format("layers.{}.{}", layer, name));
}

Tensor add_residual(const Tensor& x, const Tensor& branch) {
  const ScopeGuard scope(x.graph(), "residual");
  return x + branch;
}

Tensor feed_forward(const Tensor& x, const Gemma3LayerWeights& weights) {
  const ScopeGuard scope(x.graph(), "ffn");
  return linear(gelu_tanh(linear(x, weights.gate)) * linear(x, weights.up), weights.down);
}

// tanh(score scale / cap), which the node then multiplies by its own scale, the cap.
std::shared_ptr<const ScoreFunction> cap_function(double factor) {
  auto function = std::make_shared<ScoreFunction>();
  const auto value = [factor](Graph& graph) {
    return tanh(input(graph, "score", {DType::f32, {}}) * factor);
  };
  function->value.mark_output("result", value(function->value).value());
  const Tensor t = value(function->gradient);
  const Tensor d_result = input(function->gradient, "d_result", {DType::f32, {}});
  function->gradient.mark_output("result", t.value());
  function->gradient.mark_output("d_score", (d_result * (scalar(t, 1) - t * t) * factor).value());
  return function;
}

// Hides what lies before the window, if any key does, and what comes later.
Tensor masked(const Tensor& scores, int64_t window) {
  Graph& graph = scores.graph();
  const int64_t queries = scores.shape().back(1), keys = scores.shape().back();
  const Tensor hidden = scalar(scores, -std::numeric_limits<double>::infinity());
  const Tensor query = reshape(iota(graph, queries), {queries, 1});
  const Tensor key = iota(graph, keys).named("positions");
  const Tensor seen =
      where(less_equal(key, query).named("causal_mask"), scores, hidden).named("masked_scores");
  if (window == 0) return seen;
  const Tensor oldest = cast(query, DType::f32) - static_cast<double>(window);
  const Tensor is_near = less(oldest, cast(key, DType::f32)).named("window_mask");
  return where(is_near, seen, hidden).named("windowed_scores");
}

}  // namespace

Gemma3LayerWeights gemma3_layer_weights(std::span<const Tensor> w) {
  return {.q = w[0],
          .k = w[1],
          .v = w[2],
          .o = w[3],
          .q_norm = w[4],
          .k_norm = w[5],
          .gate = w[6],
          .up = w[7],
          .down = w[8],
          .input_norm = w[9],
          .post_attention_norm = w[10],
          .pre_feedforward_norm = w[11],
          .post_feedforward_norm = w[12]};
}

std::vector<Parameter> gemma3_parameters(const Gemma3Config& config) {
  check(config);
  using enum Parameter::Beginning;
  const int64_t d = config.hidden_size;
  std::vector<Parameter> parameters;
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
    parameters.push_back({name, {rows, columns}, normal, config.initializer_range});
  };
  const auto vector = [&](const std::string& name, int64_t size) {
    parameters.push_back({name, {size}, zeros});
  };
  matrix("model.embed_tokens.weight", config.vocabulary, d);
  for (int64_t layer = 0; layer < config.layer_count(); ++layer) {
    const auto name = [&](const char* part) {
      return fmt::format("model.layers.{}.{}.weight", layer, part);
    };
    const int64_t queries = config.heads * config.head_dim;
    const int64_t keys = config.key_heads * config.head_dim;
    matrix(name("self_attn.q_proj"), queries, d);
    matrix(name("self_attn.k_proj"), keys, d);
    matrix(name("self_attn.v_proj"), keys, d);
    matrix(name("self_attn.o_proj"), d, queries);
    vector(name("self_attn.q_norm"), config.head_dim);
    vector(name("self_attn.k_norm"), config.head_dim);
    matrix(name("mlp.gate_proj"), config.intermediate_size, d);
    matrix(name("mlp.up_proj"), config.intermediate_size, d);
    matrix(name("mlp.down_proj"), d, config.intermediate_size);
    for (const char* part : {"input_layernorm", "post_attention_layernorm",
                             "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      vector(name(part), d);
  }
  vector("model.norm.weight", d);
  if (!config.tied_head) matrix("lm_head.weight", config.vocabulary, d);
  return parameters;
}

int64_t parameter_count(const Gemma3Config& config) {
  int64_t count = 0;
  for (const Parameter& parameter : gemma3_parameters(config))
    count += element_count(parameter.shape);
  return count;
}

RopeValues gemma3_rope_values(const Gemma3Config& config, Gemma3Layer layer, int64_t positions) {
  const Gemma3Rope& rope = config.rope(layer);
  std::vector<float> frequencies;
  for (int64_t k = 0; k < config.head_dim; k += 2) {
    const auto exponent = static_cast<float>(k) / static_cast<float>(config.head_dim);
    const auto power = static_cast<float>(std::pow(rope.theta, static_cast<double>(exponent)));
    frequencies.push_back(1.0f / power / static_cast<float>(rope.factor));
  }
  RopeValues values;
  for (int64_t position = 0; position < positions; ++position)
    for (const float frequency : frequencies) {
      const double angle = static_cast<float>(position) * frequency;
      values.cos.push_back(static_cast<float>(std::cos(angle)));
      values.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  return values;
}

std::string_view table_scope(Gemma3Layer layer) {
  return layer == Gemma3Layer::full ? "rope.full" : "rope.sliding";
}

Tensor gemma3_plain_attention(const Gemma3Config& config, const Tensor& q, const Tensor& k,
                              const Tensor& v, const std::function<Tensor(const Tensor&)>& mask) {
  const int64_t batch = q.shape()[0], keys = k.shape()[2];
  // Heads that share keys have an axis of their own, along which products broadcast.
  const Shape grouped = {batch, config.key_heads, config.groups(), q.shape()[2], config.head_dim};
  const Shape single = {batch, config.key_heads, 1, keys, config.head_dim};
  Tensor scores, weights;
  {
    const ScopeGuard part(q.graph(), "scores");
    const Tensor product = matmul(reshape(q, grouped), transpose(reshape(k, single)));
    scores = scaled(product.named("scores"), 1 / std::sqrt(config.query_scalar));
    scores.named("scaled_scores");
    if (config.score_cap) scores = capped(scores, *config.score_cap).named("capped_scores");
    scores = mask(scores);
  }
  {
    const ScopeGuard part(q.graph(), kSoftmaxScope);
    weights = softmax(scores).named("weights");
  }
  const ScopeGuard part(q.graph(), "values");
  return reshape(matmul(weights, reshape(v, single)).named("output"), q.shape());
}

Gemma3Attend gemma3_self_attention(const Gemma3Config& config, AttentionForm form) {
  return [config, form](int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v) {
    const int64_t tokens = q.shape()[2];
    const bool slides = config.layers[static_cast<size_t>(layer)] == Gemma3Layer::sliding;
    const int64_t window = slides && config.sliding_window < tokens ? config.sliding_window : 0;
    const double scale = 1 / std::sqrt(config.query_scalar);
    if (form == AttentionForm::fused) {
      AttentionSpec spec{.scale = scale, .mask = {.causal = true, .window = window}};
      if (config.score_cap) {
        spec.function = cap_function(scale / *config.score_cap);
        spec.scale = *config.score_cap;
      }
      return attention(q, k, v, spec).output.named("output");
    }
    return gemma3_plain_attention(config, q, k, v,
                                  [&](const Tensor& scores) { return masked(scores, window); });
  };
}

Tensor gemma3_attention_part(const Gemma3Config& config, int64_t layer, int64_t batch,
                             const Tensor& x, const Gemma3LayerWeights& weights,
                             const Gemma3Tables& tables, const Gemma3Attend& attend) {
  Graph& graph = x.graph();
  const int64_t tokens = x.shape()[0] / batch;
  const ScopeGuard layer_guard(graph, fmt::format("layers.{}", layer));
  const auto normed = [&](const Tensor& from, const Tensor& weight) {
    return norm(from, weight, config.norm_epsilon);
  };
  const auto attention_of = [&](const Tensor& from) {
    const ScopeGuard scope(graph, "attention");
    const auto projected = [&](const Tensor& input, const Tensor& weight) {
      const ScopeGuard part(graph, "projections");
      return linear(input, weight);
    };
    const auto heads = [&](const Tensor& weight, int64_t count) {
      return reshape(projected(from, weight), {batch, tokens, count, config.head_dim});
    };
    // Heads stay beside each other until attention wants them apart: norms and rotations are of
    // whole rows either way.
    const RopeTables& own = tables.of(config.layers[static_cast<size_t>(layer)]);
    const Shape per_token = {tokens, 1, config.head_dim / 2};
    const RopeTables angles{reshape(own.cos, per_token), reshape(own.sin, per_token)};
    const Dims apart = {0, 2, 1, 3};
    const Tensor q = rope_of_halves(normed(heads(weights.q, config.heads), weights.q_norm), angles);
    const Tensor k =
        rope_of_halves(normed(heads(weights.k, config.key_heads), weights.k_norm), angles);
    const Tensor v = heads(weights.v, config.key_heads);
    const Tensor mixed = attend(layer, permute(q, apart), permute(k, apart), permute(v, apart));
    const Shape side_by_side = {batch * tokens, config.heads * config.head_dim};
    return projected(reshape(permute(mixed, apart), side_by_side), weights.o);
  };
  const Tensor attended = in_layer(attention_of(normed(x, weights.input_norm)), layer, "attn");
  return in_layer(add_residual(x, normed(attended, weights.post_attention_norm)), layer,
                  "attn_residual");
}

Tensor gemma3_mlp_part(const Gemma3Config& config, int64_t layer, const Tensor& x,
                       const Gemma3LayerWeights& weights) {
  const ScopeGuard layer_guard(x.graph(), fmt::format("layers.{}", layer));
  const auto normed = [&](const Tensor& from, const Tensor& weight) {
    return norm(from, weight, config.norm_epsilon);
  };
  const Tensor fed =
      in_layer(feed_forward(normed(x, weights.pre_feedforward_norm), weights), layer, "ffn");
  return in_layer(add_residual(x, normed(fed, weights.post_feedforward_norm)), layer,
                  "ffn_residual");
}

Gemma3Inputs gemma3_inputs(Graph& graph, const Gemma3Config& config, const TensorType& tokens,
                           DType dtype, int64_t positions) {
  const std::vector<Parameter> parameters = gemma3_parameters(config);
  if (positions > config.max_positions)
    throw Error(ErrorKind::usage,
                fmt::format("{} positions, expected at most {}", positions, config.max_positions),
                "the model has seen no later ones; shorten the text");
  Gemma3Inputs inputs{.tokens = input(graph, "tokens", tokens), .tables = {}, .weights = {}};
  const TensorType table{dtype, {positions, config.head_dim / 2}};
  for (const auto& [layer, to] : {std::pair{Gemma3Layer::full, &inputs.tables.full},
                                  std::pair{Gemma3Layer::sliding, &inputs.tables.sliding}}) {
    if (std::ranges::find(config.layers, layer) == config.layers.end()) continue;
    to->cos = input(graph, fmt::format("{}.cos", table_scope(layer)), table);
    to->sin = input(graph, fmt::format("{}.sin", table_scope(layer)), table);
  }
  for (const Parameter& each : parameters)
    inputs.weights.push_back(parameter(graph, each.name, {dtype, each.shape}));
  return inputs;
}

Tensor gemma3_logits(const Gemma3Config& config, const Gemma3Inputs& inputs,
                     const Gemma3Tables& tables, const Gemma3Attend& attend, bool last_only) {
  const std::vector<Tensor>& weights = inputs.weights;
  const DType dtype = weights[0].dtype();
  const double root = std::sqrt(static_cast<double>(config.hidden_size));
  const int64_t batch = inputs.tokens.shape()[0], tokens = inputs.tokens.shape()[1];
  Tensor x = embedding(reshape(inputs.tokens, {batch * tokens}), weights[0]);
  x = (x * rounded(dtype, root)).named("embedded");
  for (int64_t layer = 0; layer < config.layer_count(); ++layer) {
    const size_t first = 1 + static_cast<size_t>(layer) * kGemma3LayerTensors;
    const Gemma3LayerWeights of_layer = gemma3_layer_weights(std::span(weights).subspan(first));
    x = gemma3_attention_part(config, layer, batch, x, of_layer, tables, attend);
    x = gemma3_mlp_part(config, layer, x, of_layer);
  }
  const size_t after_layers = 1 + config.layers.size() * kGemma3LayerTensors;
  if (last_only && tokens > 1) {
    const Tensor last =
        slice(reshape(x, {batch, tokens, config.hidden_size}), 1, tokens - 1, tokens);
    x = reshape(last, {batch, config.hidden_size});
  }
  x = norm(x, weights[after_layers], config.norm_epsilon).named("final_norm");
  const ScopeGuard scope(x.graph(), "lm_head");
  Tensor logits = linear(x, config.tied_head ? weights[0] : weights[after_layers + 1]);
  if (config.logit_cap) logits = capped(logits, *config.logit_cap);
  return reshape(logits, {batch, last_only ? 1 : tokens, config.vocabulary}).named("logits");
}

}  // namespace ridgeline

#include "models/attention.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "autodiff/gradient.h"
#include "base/error.h"
#include "graph/scope.h"
#include "models/layers.h"

namespace ridgeline {

Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  const ScopeGuard scope(q.graph(), "attention");
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.shape().back()));
  Tensor scores, weights;
  {
    const ScopeGuard part(q.graph(), "scores");
    scores = (matmul(q, transpose(k)).named("scores") * scale).named("scaled_scores");
    if (causal) {
      const Tensor queries = reshape(iota(q.graph(), q.shape().back(1)), {q.shape().back(1), 1});
      const Tensor keys = iota(q.graph(), k.shape().back(1)).named("positions");
      const Tensor visible = less_equal(keys, queries).named("causal_mask");
      const Tensor hidden = scalar(scores, -std::numeric_limits<double>::infinity());
      scores = where(visible, scores, hidden).named("masked_scores");
    }
  }
  {
    const ScopeGuard part(q.graph(), kSoftmaxScope);
    weights = softmax(scores).named("weights");
  }
  const ScopeGuard part(q.graph(), "values");
  return matmul(weights, v).named("output");
}

namespace {

// The kernels want an axis for heads; the study's problems [P, S, d] have one each.
Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionConfig& config) {
  const auto with_heads = [](const Tensor& x) {
    return reshape(x, {x.shape()[0], 1, x.shape()[1], x.shape()[2]});
  };
  const AttentionSpec spec{.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim)),
                           .mask = {.causal = config.causal},
                           .backward = config.backward};
  const ScopeGuard scope(q.graph(), "attention");
  const AttentionResult result = attention(with_heads(q), with_heads(k), with_heads(v), spec);
  result.output.named("output");
  q.graph().mark_output("log_sum_exp", result.log_sum_exp.value());
  return reshape(result.output, q.shape());
}

Tensor attention_of(const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionConfig& config, AttentionForm form) {
  return form == AttentionForm::fused ? fused_attention(q, k, v, config)
                                      : plain_attention(q, k, v, config.causal);
}

// Independent problems: batch times heads. Throws a usage error for sizes that make none.
int64_t checked_problems(const AttentionConfig& config) {
  check_sizes({{"batch size", config.batch_size},
               {"number of heads", config.heads},
               {"sequence length", config.seq_len},
               {"head width", config.head_dim}});
  int64_t problems = 0;
  if (__builtin_mul_overflow(config.batch_size, config.heads, &problems))
    throw Error(ErrorKind::usage, fmt::format("batch size {} times {} heads is too large",
                                              config.batch_size, config.heads));
  return problems;
}

}  // namespace

Graph attention_decoding_graph(const AttentionConfig& config, AttentionForm form) {
  const int64_t problems = checked_problems(config);
  AttentionConfig unmasked = config;  // the newest query sees every key
  unmasked.causal = false;
  Graph graph;
  const TensorType query{config.dtype, {problems, 1, config.head_dim}};
  const TensorType cached{config.dtype, {problems, config.seq_len, config.head_dim}};
  const Tensor q = input(graph, "q", query);
  const Tensor k = input(graph, "k", cached);
  const Tensor v = input(graph, "v", cached);
  graph.mark_output("output", attention_of(q, k, v, unmasked, form).value());
  verify(graph);
  return graph;
}

Graph attention_training_graph(const AttentionConfig& config, AttentionForm form,
                               const std::function<Graph(const Graph&)>& forward_pass) {
  const int64_t problems = checked_problems(config);
  Graph graph;
  const TensorType type{config.dtype, {problems, config.seq_len, config.head_dim}};
  std::array<Tensor, 4> inputs;  // q, k, v and the gradient of the output
  for (size_t i = 0; i < inputs.size(); ++i) {
    static constexpr std::array kNames = {"q", "k", "v", "d_output"};
    inputs[i] = input(graph, kNames[i], type);
  }
  const auto& [q, k, v, d_output] = inputs;
  graph.mark_output("output", attention_of(q, k, v, config, form).value());
  if (forward_pass) graph = forward_pass(graph);
  // Passes keep inputs and outputs in order, but not where they stand in the graph.
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = Tensor(graph, graph.inputs()[i]);
  const Tensor output(graph, graph.outputs().back().value);

  graph.begin_stage("backward");
  const Cotangent cotangent{output, d_output};
  const std::span<const Tensor> sources(inputs.data(), 3);
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    static constexpr std::array kNames = {"d_q", "d_k", "d_v"};
    graph.mark_output(kNames[i], gradients[i].named(kNames[i]).value());
  }
  verify(graph);
  return graph;
}

}  // namespace ridgeline

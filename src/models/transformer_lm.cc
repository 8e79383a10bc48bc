#include "models/transformer_lm.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "autodiff/gradient.h"
#include "base/closest.h"
#include "base/error.h"
#include "graph/scope.h"
#include "graph/stages.h"
#include "models/accumulate.h"
#include "models/loss.h"

namespace ridgeline {
namespace {

void check(const TransformerConfig& config) {
  check_sizes({{"width", config.d_model},
               {"feed-forward width", config.d_ff},
               {"number of layers", config.layers},
               {"number of heads", config.heads},
               {"vocabulary", config.vocabulary},
               {"batch size", config.batch_size},
               {"context length", config.context_length}});
  if (config.d_model % config.heads != 0 || config.head_dim() % 2 != 0)
    throw Error(ErrorKind::usage,
                fmt::format("{} heads do not cut a width of {} into heads of an even width",
                            config.heads, config.d_model),
                "choose a width that is a multiple of twice the number of heads");
}

// Weights of one layer, in the order of transformer_parameters().
struct LayerWeights {
  Tensor q, k, v, output;
  SwiGluWeights ffn;
  Tensor ln1, ln2;
};

constexpr size_t kLayerTensors = 9;

LayerWeights layer_weights(std::span<const Tensor> w) {
  return {.q = w[0],
          .k = w[1],
          .v = w[2],
          .output = w[3],
          .ffn = {.w1 = w[4], .w2 = w[5], .w3 = w[6]},
          .ln1 = w[7],
          .ln2 = w[8]};
}

// `cache`, if there is one, already has the keys and values of x.
Tensor self_attention(const TransformerConfig& config, const Tensor& x, const LayerWeights& weights,
                      const RopeTables& tables, AttentionForm form, const KeyValueCache* cache) {
  Graph& graph = x.graph();
  const ScopeGuard scope(graph, "attention");
  const auto projected = [&](const Tensor& from, const Tensor& weight) {
    const ScopeGuard part(graph, "projections");
    return linear(from, weight);
  };
  const Shape split = {config.batch_size, config.context_length, config.heads, config.head_dim()};
  const auto heads_of = [&](const Tensor& weight) {  // [batch, heads, context, head_dim]
    return permute(reshape(projected(x, weight), split), {0, 2, 1, 3});
  };
  const Tensor q = rope(heads_of(weights.q), tables);
  Tensor k = rope(heads_of(weights.k), tables);
  Tensor v = heads_of(weights.v);
  if (cache != nullptr) {
    const std::string layer(layer_scope(graph.current_scope()));
    graph.mark_output(layer + ".key", k.value());
    graph.mark_output(layer + ".value", v.value());
    k = cache->keys;
    v = cache->values;
  }
  const bool causal = cache == nullptr;
  const AttentionSpec spec{.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim())),
                           .mask = {.causal = causal}};
  const Tensor mixed = form == AttentionForm::fused ? attention(q, k, v, spec).output
                                                    : plain_attention(q, k, v, causal);
  return projected(reshape(permute(mixed, {0, 2, 1, 3}), x.shape()), weights.output);
}

Tensor residual(const Tensor& x, const Tensor& branch) {
  const ScopeGuard scope(x.graph(), "residual");
  return x + branch;
}

struct ModelInputs {
  Tensor tokens;
  RopeTables tables;
  std::vector<Tensor> weights;
};

ModelInputs model_inputs(Graph& graph, const TransformerConfig& config, DType dtype) {
  const std::vector<Parameter> parameters = transformer_parameters(config);
  const TensorType ids{DType::i32, {config.batch_size, config.context_length}};
  const TensorType table{dtype, {config.context_length, config.head_dim() / 2}};
  ModelInputs inputs{.tokens = input(graph, "tokens", ids),
                     .tables = {input(graph, "rope.cos", table), input(graph, "rope.sin", table)},
                     .weights = {}};
  for (const Parameter& each : parameters)
    inputs.weights.push_back(parameter(graph, each.name, {dtype, each.shape}));
  return inputs;
}

// The inputs that hold the parameters, as the forward pass has left them.
std::vector<Tensor> trained_inputs(Graph& graph, size_t parameters) {
  std::vector<Tensor> trained;
  size_t found = 0;
  for (Value value : graph.inputs()) {
    const InputInfo& input = graph.input_info(value);
    if (input.role != Role::parameter) continue;
    found += input.parts.size();
    trained.emplace_back(graph, value);
  }
  if (found != parameters)
    throw Error(ErrorKind::internal,
                fmt::format("the forward pass left {} of {} parameters", found, parameters));
  return trained;
}

Value output_named(const Graph& graph, const std::string& name) {
  for (const Output& output : graph.outputs())
    if (output.name == name) return output.value;
  throw Error(ErrorKind::internal, fmt::format("the forward pass lost the output '{}'", name));
}

Graph forward_graph(const TransformerConfig& config, const TrainingOptions& options) {
  Graph graph;
  const auto [tokens, tables, weights] = model_inputs(graph, config, DType::f32);
  const Tensor logits = transformer_logits(config, tokens, weights, tables, options.attention);
  graph.mark_output("logits", logits.value());
  if (options.forward_pass) graph = options.forward_pass(graph);
  verify(graph);
  return graph;
}

// A graph with the output "loss", and the gradients of that.
struct TrainedGraph {
  struct Pair {
    Value value, gradient;
  };
  Graph graph;
  Value loss;
  std::vector<Pair> parameters;
};

// Forward and backward of one micro-batch, whose loss counts as a part of the batch's.
TrainedGraph gradient_graph(const TransformerConfig& config, const TrainingOptions& options) {
  TrainedGraph result;
  Graph& graph = result.graph;
  const auto [tokens, tables, model_weights] = model_inputs(graph, config, DType::f32);
  const size_t parameters = model_weights.size();
  const Tensor logits =
      transformer_logits(config, tokens, model_weights, tables, options.attention);
  const Tensor targets = input(graph, "targets", tokens.type());
  Tensor loss = cross_entropy(logits, reshape(targets, {logits.shape()[0]})).named("loss");
  graph.mark_output("loss", loss.value());
  if (options.forward_pass) graph = options.forward_pass(graph);
  result.loss = output_named(graph, "loss");
  loss = Tensor(graph, result.loss);
  const std::vector<Tensor> weights = trained_inputs(graph, parameters);

  graph.begin_stage(std::string(kBackwardStage));
  const double weight = options.loss_weight * micro_batch_weight(options.micro_batches);
  const Tensor scale = !options.optimizer.loss_scaling ? scalar(loss, weight)
                       : weight == 1                   ? loss_scale(graph)
                                                       : loss_scale(graph) * weight;
  const Cotangent cotangent{loss, expand(scale, loss.shape())};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, weights);
  for (size_t i = 0; i < weights.size(); ++i)
    result.parameters.push_back({weights[i].value(), gradients[i].value()});
  return result;
}

// The same of a batch of so many times the size.
TrainedGraph accumulated(const TrainedGraph& of, int64_t micro_batches) {
  TrainedGraph whole;
  std::vector<Value> summed = {of.loss};
  for (const TrainedGraph::Pair& each : of.parameters) summed.push_back(each.gradient);
  const auto is_batched = [](std::string_view input) {
    return input == "tokens" || input == "targets";
  };
  const std::vector<Tensor> sums =
      accumulate(whole.graph, of.graph, micro_batches, is_batched, summed);
  whole.loss = (sums[0] * micro_batch_weight(micro_batches)).named("loss").value();
  whole.graph.mark_output("loss", whole.loss);
  for (size_t i = 0; i < of.parameters.size(); ++i) {
    const std::string name = of.graph.node(of.parameters[i].value).name;
    for (Value input : whole.graph.inputs())
      if (whole.graph.node(input).name == name)
        whole.parameters.push_back({input, sums[i + 1].value()});
  }
  return whole;
}

}  // namespace

std::span<const TransformerConfig> transformer_sizes() {
  static const std::array<TransformerConfig, 6> kSizes = {{
      {.name = "small", .d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12},
      {.name = "medium", .d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16},
      {.name = "large", .d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20},
      {.name = "xl", .d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25},
      {.name = "2.7B", .d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32},
      {.name = "10B", .d_model = 4608, .d_ff = 12288, .layers = 50, .heads = 36},
  }};
  return kSizes;
}

TransformerConfig transformer_config(std::string_view name) {
  for (const TransformerConfig& config : transformer_sizes())
    if (config.name == name) return config;
  throw unknown_name(name, "a model size", transformer_sizes());
}

std::vector<Parameter> transformer_parameters(const TransformerConfig& config) {
  check(config);
  using enum Parameter::Beginning;
  const int64_t d = config.d_model;
  std::vector<Parameter> parameters = {
      {"token_embeddings.weight", {config.vocabulary, d}, embedding}};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto add = [&](const char* name, const Shape& shape, Parameter::Beginning beginning) {
      parameters.push_back({fmt::format("layers.{}.{}.weight", layer, name), shape, beginning});
    };
    for (const char* name : {"attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.output_proj"})
      add(name, {d, d}, linear);
    add("ffn.w1", {config.d_ff, d}, linear);
    add("ffn.w2", {d, config.d_ff}, linear);
    add("ffn.w3", {config.d_ff, d}, linear);
    add("ln1", {d}, ones);
    add("ln2", {d}, ones);
  }
  parameters.push_back({"ln_final.weight", {d}, ones});
  parameters.push_back({"lm_head.weight", {config.vocabulary, d}, linear});
  return parameters;
}

int64_t parameter_count(const TransformerConfig& config) {
  int64_t count = 0;
  for (const Parameter& parameter : transformer_parameters(config))
    count += element_count(parameter.shape);
  return count;
}

Tensor transformer_logits(const TransformerConfig& config, const Tensor& tokens,
                          std::span<const Tensor> weights, const RopeTables& rope_tables,
                          AttentionForm form, std::span<const KeyValueCache> caches) {
  const int64_t count = config.batch_size * config.context_length;
  Tensor x = embedding(reshape(tokens, {count}), weights[0]).named("embedded");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const LayerWeights w =
        layer_weights(weights.subspan(1 + static_cast<size_t>(layer) * kLayerTensors));
    const auto named = [&](const Tensor& tensor, const char* name) {
      return tensor.named(fmt::format("layers.{}.{}", layer, name));
    };
    const ScopeGuard scope(x.graph(), fmt::format("layers.{}", layer));
    const Tensor attended = self_attention(
        config, named(rms_norm(x, w.ln1, config.norm_epsilon), "ln1"), w, rope_tables, form,
        caches.empty() ? nullptr : &caches[static_cast<size_t>(layer)]);
    x = named(residual(x, named(attended, "attn")), "attn_residual");
    const Tensor fed = swiglu(named(rms_norm(x, w.ln2, config.norm_epsilon), "ln2"), w.ffn);
    x = named(residual(x, named(fed, "ffn")), "ffn_residual");
  }
  const Tensor final_norm = weights[weights.size() - 2];
  const Tensor lm_head = weights[weights.size() - 1];
  x = rms_norm(x, final_norm, config.norm_epsilon).named("ln_final");
  const ScopeGuard scope(x.graph(), "lm_head");
  return linear(x, lm_head).named("logits");
}

Graph inference_graph(const TransformerConfig& config, const InferenceOptions& options) {
  const bool decodes = options.phase == InferencePhase::decode;
  TransformerConfig newest = config;
  if (decodes) newest.context_length = 1;
  Graph graph;
  const auto [tokens, tables, weights] = model_inputs(graph, newest, options.dtype);
  const TensorType cached{
      options.dtype, {config.batch_size, config.heads, config.context_length, config.head_dim()}};
  std::vector<KeyValueCache> caches;
  for (int64_t layer = 0; decodes && layer < config.layers; ++layer)
    caches.push_back({input(graph, fmt::format("layers.{}.keys", layer), cached),
                      input(graph, fmt::format("layers.{}.values", layer), cached)});
  const Tensor logits =
      transformer_logits(newest, tokens, weights, tables, options.attention, caches);
  graph.mark_output("logits", logits.value());
  verify(graph);
  return graph;
}

Graph training_graph(const TransformerConfig& config, const TrainingOptions& options) {
  if (options.scenario == Scenario::forward) return forward_graph(config, options);
  check_micro_batches(config.batch_size, options.micro_batches);
  TransformerConfig micro_batch = config;
  micro_batch.batch_size /= options.micro_batches;
  TrainedGraph of = gradient_graph(micro_batch, options);
  if (options.micro_batches > 1) of = accumulated(of, options.micro_batches);
  Graph& graph = of.graph;
  std::vector<TrainedParameter> trained;
  for (const auto& [value, gradient] : of.parameters)
    trained.push_back({Tensor(graph, value), Tensor(graph, gradient)});
  if (options.scenario == Scenario::forward_backward)
    for (const TrainedParameter& each : trained)
      mark_outputs(gradient_name(""), each.value, each.gradient);
  if (options.scenario == Scenario::full_step) {
    graph.begin_stage("optimizer");
    add_adamw_step(graph, trained, options.optimizer);
  }
  verify(graph);
  return std::move(of.graph);
}

}  // namespace ridgeline

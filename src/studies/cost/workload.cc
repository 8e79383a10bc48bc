#include "studies/cost/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "compile/lower.h"
#include "studies/model/flags.h"

namespace ridgeline {
namespace {

constexpr CostPhase kWhole[] = {CostPhase::whole};
constexpr CostPhase kForward[] = {CostPhase::prefill, CostPhase::decode};
constexpr CostPhase kOfAttention[] = {CostPhase::prefill, CostPhase::decode, CostPhase::fwd_bwd};
constexpr CostPhase kOfModels[] = {CostPhase::prefill, CostPhase::decode, CostPhase::fwd_bwd,
                                   CostPhase::full_step};

constexpr CostOpInfo kOps[] = {
    {CostOp::gemm, "gemm", "a matrix times a matrix", false, kWhole},
    {CostOp::gemv, "gemv", "a matrix times a vector", false, kWhole},
    {CostOp::attention, "attention", "softmax(q k^T) v alone, for the heads of the model", true,
     kOfAttention},
    {CostOp::self_attention, "self-attention", "of a layer: projections, RoPE and attention", true,
     kForward},
    {CostOp::mlp, "mlp", "of a layer: SwiGLU", false, kForward},
    {CostOp::layer, "layer", "a decoder layer with norms and residuals", true, kForward},
    {CostOp::model, "model", "embedding, all layers and the head", true, kOfModels},
};

constexpr CostPhaseInfo kPhases[] = {
    {CostPhase::prefill, "prefill", "all tokens of the context at once, in the dtype throughout"},
    {CostPhase::decode, "decode",
     "one token more of every sequence; the cache then holds the context"},
    {CostPhase::fwd_bwd, "fwd-bwd",
     "forward and backward, fp32 parameters with products in the dtype, as `ridgeline model`"},
    {CostPhase::full_step, "full-step", "that, and the step of AdamW"},
};

constexpr CostForm kForms[] = {
    {AttentionForm::plain, "naive", "one node per step, which stores the S x S scores"},
    {AttentionForm::fused, "flash", "one node, which never stores them"},
};

bool is_product(CostOp op) {
  return op == CostOp::gemm || op == CostOp::gemv;
}

// tf32 is stored as fp32: only the rate of products differs.
DType stored(DType dtype) {
  return dtype == DType::tf32 ? DType::f32 : dtype;
}

AttentionConfig attention_of(const CostWorkload& workload) {
  const TransformerConfig& model = workload.model;
  return {.batch_size = model.batch_size,
          .heads = model.heads,
          .seq_len = model.context_length,
          .head_dim = model.head_dim(),
          .causal = workload.causal,
          .dtype = stored(workload.dtype)};
}

Graph training_graph_of(const CostWorkload& workload) {
  const Trace trace = [&](const Rewrite& forward) {
    return training_graph(workload.model, {.scenario = workload.phase == CostPhase::full_step
                                                           ? Scenario::full_step
                                                           : Scenario::forward_backward,
                                           .attention = workload.form,
                                           .optimizer = {},
                                           .forward_pass = forward});
  };
  CompileOptions options;
  if (workload.dtype != DType::f32) options.products = workload.dtype;
  return lower(trace, options).graph;
}

Graph gemma_graph_of(const CostWorkload& workload) {
  const CostGemma& gemma = *workload.gemma;
  const bool decodes = workload.phase == CostPhase::decode;
  return (decodes ? gemma3_decode_graph : gemma3_prefill_graph)(
      gemma.config, {.batch_size = gemma.batch_size,
                     .tokens = decodes ? 1 : gemma.context_length,
                     .capacity = gemma.context_length,
                     .chunk = 1,
                     .dtype = stored(workload.dtype),
                     .attention = workload.form});
}

// A Gemma-3's sizes as a config of our own model, whose head_dim() does not apply.
TransformerConfig sizes_of(const CostGemma& gemma) {
  return {.name = "gemma3-" + gemma.config.name,
          .d_model = gemma.config.hidden_size,
          .d_ff = gemma.config.intermediate_size,
          .layers = gemma.config.layer_count(),
          .heads = gemma.config.heads,
          .vocabulary = gemma.config.vocabulary,
          .batch_size = gemma.batch_size,
          .context_length = gemma.context_length};
}

bool is_inference(CostPhase phase) {
  return phase == CostPhase::prefill || phase == CostPhase::decode;
}

Graph inference_graph_of(const CostWorkload& workload) {
  if (workload.gemma) return gemma_graph_of(workload);
  TransformerConfig model = workload.model;
  if (workload.op != CostOp::model) model.layers = 1;
  return inference_graph(model,
                         {.phase = workload.phase == CostPhase::decode ? InferencePhase::decode
                                                                       : InferencePhase::prefill,
                          .attention = workload.form,
                          .dtype = stored(workload.dtype)});
}

Graph graph_of(const CostWorkload& workload) {
  const bool trains = !is_inference(workload.phase);
  if (workload.op != CostOp::attention)
    return trains ? training_graph_of(workload) : inference_graph_of(workload);
  return workload.phase == CostPhase::decode
             ? attention_decoding_graph(attention_of(workload), workload.form)
             : attention_training_graph(attention_of(workload), workload.form);
}

// The scope whose nodes are counted; empty: all nodes.
std::string_view counted_scope(CostOp op) {
  if (op == CostOp::self_attention) return "layers.0.attention";
  if (op == CostOp::mlp) return "layers.0.ffn";
  return op == CostOp::layer ? "layers.0" : "";
}

// The named size with the sizes that replace its own; all sizes if nothing of a named one is left.
std::string model_words(const TransformerConfig& model) {
  constexpr std::string_view kCustom = "custom-";
  ModelOverrides sizes{model.d_model, model.d_ff, model.layers, model.heads, model.vocabulary};
  std::string named = model.name;
  if (named.starts_with(kCustom)) named.erase(0, kCustom.size());
  const auto of_name = std::ranges::find(transformer_sizes(), named, &TransformerConfig::name);
  if (of_name == transformer_sizes().end()) return to_command(sizes);
  if (sizes.d_model == of_name->d_model) sizes.d_model = 0;
  if (sizes.d_ff == of_name->d_ff) sizes.d_ff = 0;
  if (sizes.layers == of_name->layers) sizes.layers = 0;
  if (sizes.heads == of_name->heads) sizes.heads = 0;
  if (sizes.vocabulary == of_name->vocabulary) sizes.vocabulary = 0;
  // A size that was replaced by itself still gives the model another name.
  if (named != model.name && !sizes.any()) sizes.d_model = model.d_model;
  return fmt::format(" --model-size {}{}", named, to_command(sizes));
}

bool is_within(std::string_view path, std::string_view scope) {
  return scope.empty() || path == scope ||
         (path.starts_with(scope) && path.substr(scope.size()).starts_with('.'));
}

}  // namespace

const Choices<CostOpInfo> kCostOps{"something whose cost can be counted", kOps};
const Choices<CostPhaseInfo> kCostPhases{"a phase", kPhases};
const Choices<CostForm> kCostForms{"a form of attention", kForms};

std::string_view name(CostPhase phase) {
  for (const CostPhaseInfo& row : kCostPhases)
    if (row.phase == phase) return row.name;
  return "";
}

std::vector<CostWorkload> expand_matrix(const CostMatrix& matrix) {
  const auto has = [](CostOp op, CostPhase phase) {
    return std::ranges::count(info(op).phases, phase) > 0;
  };
  for (const CostPhase phase : matrix.phases)
    if (std::ranges::none_of(matrix.ops,
                             [&](CostOp op) { return is_product(op) || has(op, phase); }))
      throw Error(ErrorKind::usage,
                  fmt::format("none of what was asked for has the phase {}", name(phase)),
                  "see `ridgeline cost --list`");
  std::vector<CostWorkload> works;
  for (const DType dtype : matrix.dtypes)
    for (const CostOp op : matrix.ops) {
      if (is_product(op)) {
        for (const int64_t size : matrix.sizes)
          works.push_back(
              {.op = op, .dtype = dtype, .shape = {size, op == CostOp::gemv ? 1 : size, size}});
        for (const GemmShape& shape : matrix.shapes)
          if (shape.is_vector() == (op == CostOp::gemv))
            works.push_back({.op = op, .dtype = dtype, .shape = shape});
        continue;
      }
      const auto forms = info(op).has_attention ? matrix.forms : std::vector{AttentionForm::plain};
      for (const TransformerConfig& model : matrix.models)
        for (const CostPhase phase : matrix.phases)
          for (const AttentionForm form : forms)
            if (has(op, phase))
              works.push_back({.op = op,
                               .phase = phase,
                               .form = form,
                               .dtype = dtype,
                               .model = model,
                               .causal = matrix.causal && op == CostOp::attention});
      if (op != CostOp::model) continue;
      for (const CostGemma& gemma : matrix.gemmas)
        for (const CostPhase phase : matrix.phases)
          for (const AttentionForm form : forms)
            if (is_inference(phase))
              works.push_back({.op = op,
                               .phase = phase,
                               .form = form,
                               .dtype = dtype,
                               .model = sizes_of(gemma),
                               .gemma = gemma});
    }
  return works;
}

std::vector<CostGemma> gemmas_of(const std::vector<std::string>& words,
                                 const std::vector<int64_t>& contexts, int64_t batch_size) {
  std::vector<CostGemma> gemmas;
  for (const std::string& word : words) {
    const Gemma3Config config = find_gemma3_config(word);
    for (const int64_t context : contexts) {
      expect_positions(config, context);
      gemmas.push_back({config, word, batch_size, context});
    }
  }
  return gemmas;
}

std::optional<CachedText> cached_text(const CostWorkload& workload) {
  if (workload.op != CostOp::model || !is_inference(workload.phase)) return std::nullopt;
  const TransformerConfig& model = workload.model;
  const DType dtype = stored(workload.dtype);
  const int64_t size = info(dtype).size;
  if (workload.gemma) {
    const Gemma3Config& config = workload.gemma->config;
    return CachedText{.weights = {parameter_count(config) * size},
                      .cache = gemma3_cache_bytes(config, {.batch_size = model.batch_size,
                                                           .capacity = model.context_length,
                                                           .dtype = dtype}),
                      .per_token = gemma3_cache_bytes_per_token(config, dtype),
                      .batch_size = model.batch_size,
                      .window = config.sliding_window,
                      .most = config.max_positions};
  }
  const Bytes per_token{2 * model.layers * model.d_model * size};
  return CachedText{.weights = {parameter_count(model) * size},
                    .cache = {per_token.count * model.batch_size * model.context_length},
                    .per_token = {per_token, per_token},
                    .batch_size = model.batch_size,
                    .window = 0,
                    .most = std::numeric_limits<int64_t>::max()};
}

int64_t CachedText::longest_context(Bytes memory) const {
  const int64_t room = (memory - weights).count / batch_size;  // per sequence
  if (room <= 0) return 0;
  const int64_t within = room / per_token.within_window.count;
  if (window == 0 || within <= window) return std::min(within, most);
  if (per_token.past_window.count == 0) return most;
  const int64_t past = room - window * per_token.within_window.count;
  return std::min(window + past / per_token.past_window.count, most);
}

CountedWork count_work(const CostWorkload& workload) {
  CountedWork work;
  if (is_product(workload.op)) {
    const PhaseCost cost = gemm_cost(workload.shape, workload.dtype);
    work.total = {.flops = static_cast<double>(cost.flops),
                  .macs = static_cast<double>(cost.macs),
                  .bytes = static_cast<double>(cost.bytes.count)};
    work.product_bytes = work.total.bytes;
    work.nodes = {work.total};
    return work;
  }
  const Graph graph = graph_of(workload);
  const std::vector<Cost> costs = node_costs(graph);
  // Prefill leaves out attention's backward stage.
  const bool forward_only = workload.phase == CostPhase::prefill;
  const size_t end = forward_only ? graph.stages()[0].end : costs.size();
  for (size_t number = 0; number < end; ++number) {
    const Cost& cost = costs[number];
    if (!(cost.bytes > 0) ||
        !is_within(graph.scope_path(graph.nodes()[number]), counted_scope(workload.op)))
      continue;
    work.total += cost;
    if (cost.macs > 0) work.product_bytes += cost.bytes;
    work.nodes.push_back(cost);
  }
  return work;
}

Json workload_json(const CostWorkload& workload) {
  Json json = {{"op", info(workload.op).name}, {"dtype", info(workload.dtype).name}};
  if (is_product(workload.op)) {
    json.update({{"m", workload.shape.m}, {"n", workload.shape.n}, {"k", workload.shape.k}});
    return json;
  }
  const TransformerConfig& model = workload.model;
  json.update({{"phase", name(workload.phase)},
               {"model_size", model.name},
               {"batch_size", model.batch_size},
               {"context_length", model.context_length},
               {"d_model", model.d_model}});
  if (info(workload.op).has_attention)
    json.update(
        {{"form", kCostForms[workload.form].name},
         {"heads", model.heads},
         {"head_dim", workload.gemma ? workload.gemma->config.head_dim : model.head_dim()}});
  if (workload.op == CostOp::attention) json["causal"] = workload.causal;
  if (workload.op == CostOp::mlp || workload.op == CostOp::layer || workload.op == CostOp::model)
    json["d_ff"] = model.d_ff;
  if (workload.op == CostOp::model)
    json.update({{"layers", model.layers}, {"vocabulary", model.vocabulary}});
  return json;
}

std::string label(const CostWorkload& workload) {
  const std::string_view dtype = info(workload.dtype).name;
  if (is_product(workload.op))
    return fmt::format("{} {}x{}x{} {}", info(workload.op).name, workload.shape.m, workload.shape.n,
                       workload.shape.k, dtype);
  const std::string form =
      info(workload.op).has_attention ? fmt::format(" {}", kCostForms[workload.form].name) : "";
  return fmt::format("{} {} {} context={} batch={}{} {}", info(workload.op).name,
                     name(workload.phase), workload.model.name, workload.model.context_length,
                     workload.model.batch_size, form, dtype);
}

std::string to_command(const CostWorkload& workload) {
  std::string words = fmt::format(" {}", info(workload.op).name);
  if (is_product(workload.op)) {
    words += fmt::format(" --shape {},{},{}", workload.shape.m, workload.shape.n, workload.shape.k);
  } else {
    const TransformerConfig& model = workload.model;
    words += workload.gemma ? fmt::format(" --model-config {}", workload.gemma->word)
                            : model_words(model);
    words += fmt::format(" --context-length {} --batch-size {} --phase {}", model.context_length,
                         model.batch_size, name(workload.phase));
    if (info(workload.op).has_attention)
      words += fmt::format(" --impl {}", kCostForms[workload.form].name);
    if (workload.causal) words += " --causal";
  }
  return words + fmt::format(" --dtype {}", info(workload.dtype).name);
}

}  // namespace ridgeline

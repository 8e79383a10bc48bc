// Gemma-3's text models as parts of graphs (gemma3_cache.h has whole ones):
//
//   const Gemma3Config config = gemma3_config("270m");
//   Graph graph;
//   const Gemma3Inputs inputs =
//       gemma3_inputs(graph, config, {DType::i32, {1, 128}}, DType::bf16, 128);
//   const Tensor logits =
//       gemma3_logits(config, inputs, inputs.tables,
//                     gemma3_self_attention(config, AttentionForm::plain), true);
//
// In AttentionForm::plain every node rounds where Hugging Face's eager code does (docs/gemma.md).
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "models/attention.h"
#include "models/gemma3_config.h"
#include "models/layers.h"

namespace ridgeline {

// Names, shapes and initial values, as in Hugging Face's text models. Throws a usage error for an
// invalid configuration.
std::vector<Parameter> gemma3_parameters(const Gemma3Config& config);
int64_t parameter_count(const Gemma3Config& config);

// cos and sin of positions 0, 1, ... for one kind of layer, [positions, head_dim / 2]; the
// frequencies and angles are fp32 numbers, as in the reference.
RopeValues gemma3_rope_values(const Gemma3Config& config, Gemma3Layer layer, int64_t positions);

// The inputs "rope.full.cos", "rope.full.sin", "rope.sliding.cos" and "rope.sliding.sin"; tables of
// a kind without layers are missing.
struct Gemma3Tables {
  RopeTables full, sliding;
  const RopeTables& of(Gemma3Layer layer) const {
    return layer == Gemma3Layer::full ? full : sliding;
  }
};
std::string_view table_scope(Gemma3Layer layer);  // "rope.full"

struct Gemma3LayerWeights {
  Tensor q, k, v, o, q_norm, k_norm;
  Tensor gate, up, down;
  Tensor input_norm, post_attention_norm, pre_feedforward_norm, post_feedforward_norm;
};

// From the tensors of one layer, in the order of gemma3_parameters().
inline constexpr size_t kGemma3LayerTensors = 13;
Gemma3LayerWeights gemma3_layer_weights(std::span<const Tensor> of_layer);

// Computes attention of queries [B, heads, L, head_dim], keys and values [B, key_heads, L,
// head_dim] of layer number `layer`; the result is like the queries.
using Gemma3Attend =
    std::function<Tensor(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v)>;

// The two parts of a decoder layer, in order: each with the norms before and after it and the
// residual. x is [batch * L, hidden_size]; `tables` are those of the tokens' positions, [L,
// head_dim / 2].
Tensor gemma3_attention_part(const Gemma3Config& config, int64_t layer, int64_t batch,
                             const Tensor& x, const Gemma3LayerWeights& weights,
                             const Gemma3Tables& tables, const Gemma3Attend& attend);
Tensor gemma3_mlp_part(const Gemma3Config& config, int64_t layer, const Tensor& x,
                       const Gemma3LayerWeights& weights);

// Attention as separate nodes; `mask` masks scores [B, key_heads, groups, queries, keys].
Tensor gemma3_plain_attention(const Gemma3Config& config, const Tensor& q, const Tensor& k,
                              const Tensor& v, const std::function<Tensor(const Tensor&)>& mask);

// Attention of tokens at positions 0, 1, ... over themselves.
Gemma3Attend gemma3_self_attention(const Gemma3Config& config, AttentionForm form);

// The inputs of every graph of a model, in the order tokens, tables, weights.
struct Gemma3Inputs {
  Tensor tokens;                // i32 [B, L]
  Gemma3Tables tables;          // [positions, head_dim / 2]
  std::vector<Tensor> weights;  // in the order of gemma3_parameters()
};
Gemma3Inputs gemma3_inputs(Graph& graph, const Gemma3Config& config, const TensorType& tokens,
                           DType dtype, int64_t positions);

// Logits [B, L, vocabulary] of i32 tokens [B, L]; with `last_only` those of the last token alone,
// [B, 1, vocabulary].
Tensor gemma3_logits(const Gemma3Config& config, const Gemma3Inputs& inputs,
                     const Gemma3Tables& tables, const Gemma3Attend& attend, bool last_only);

}  // namespace ridgeline

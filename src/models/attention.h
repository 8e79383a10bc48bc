// Scaled dot-product attention as a graph: the workload of the attention study.
#pragma once

#include <functional>

#include "graph/tensor.h"

namespace ridgeline {

struct AttentionConfig {
  int64_t batch_size = 8;
  int64_t heads = 1;
  int64_t seq_len = 1024;
  int64_t head_dim = 64;
  bool causal = false;
  DType dtype = DType::f32;
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;  // of the fused form

  bool operator==(const AttentionConfig&) const = default;
};

enum class AttentionForm {
  plain,  // one node per step of the formula, with the S x S tensors it names
  fused,  // one attention node
};

// Softmax(q k^T / sqrt(d)) v for q, k, v of shape [..., S, d]; with `causal`, query i sees keys up
// to i.
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

// The study's workload in either form.
// Inputs q, k, v and d_output of shape [batch * heads, S, d] (heads have no separate axis: they are
// independent problems); output "output" in the stage "forward" (in the fused form also
// "log_sum_exp", [batch * heads, 1, S]), outputs "d_q", "d_k", "d_v" in the stage "backward".
// `forward_pass`, if given, rewrites the forward graph before gradients are taken of it. Throws a
// usage error for sizes below 1 or too large to count.
Graph attention_training_graph(const AttentionConfig& config,
                               AttentionForm form = AttentionForm::plain,
                               const std::function<Graph(const Graph&)>& forward_pass = {});

// One new query of every problem over the keys and values of all seq_len tokens, as in decoding:
// inputs q [batch * heads, 1, d], k and v [batch * heads, S, d]; output "output".
Graph attention_decoding_graph(const AttentionConfig& config,
                               AttentionForm form = AttentionForm::plain);

}  // namespace ridgeline

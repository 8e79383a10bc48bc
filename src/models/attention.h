// Scaled dot-product attention as a graph: the workload of the attention study.
#pragma once

#include "graph/tensor.h"

namespace ridgeline {

struct AttentionConfig {
  int64_t batch_size = 8;
  int64_t heads = 1;
  int64_t seq_len = 1024;
  int64_t head_dim = 64;
  bool causal = false;
  DType dtype = DType::f32;
};

// Softmax(q k^T / sqrt(d)) v for q, k, v of shape [..., S, d]; with `causal`, query i sees keys up to i.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);

// Inputs q, k, v and d_output of shape [batch * heads, S, d] (no axis of its own for heads: they are
// independent problems); output "output" in the stage "forward", outputs "d_q", "d_k", "d_v" in the
// stage "backward". Throws a usage error for sizes below 1 or too large to count.
Graph attention_training_graph(const AttentionConfig& config);

}  // namespace ridgeline

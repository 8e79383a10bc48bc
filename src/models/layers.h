// Layers of transformers as compositions of ops, at the granularity of PyTorch eager. Activations
// are rows of tokens, [tokens, width].
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"

namespace ridgeline {

// A learned tensor: its name in a weights file, its shape, and its initialisation.
struct Parameter {
  enum class Beginning {
    linear,     // truncated normal, std sqrt(2 / (d_in + d_out)), cut at 3 std
    embedding,  // truncated normal, std 1, cut at 3
    ones,
    zeros,
    normal,  // of the given deviation, not truncated
  };
  std::string name;
  Shape shape;
  Beginning beginning = Beginning::linear;
  double deviation = 0;  // of Beginning::normal
};

// Throws a usage error that names the first size below 1: {{"batch size", 8}, ...}.
void check_sizes(std::initializer_list<std::pair<const char*, int64_t>> sizes);

// x W^T for weight [d_out, d_in].
Tensor linear(const Tensor& x, const Tensor& weight);

// Rows of weight [vocabulary, width] for i32 tokens.
Tensor embedding(const Tensor& tokens, const Tensor& weight);

// x / sqrt(mean(x^2) + epsilon) * weight, computed in fp32 and cast back.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon);

// (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias. Its means are sums, so that autocast
// computes it in fp32 for any input, like PyTorch's layer norm.
struct LayerNormWeights {
  Tensor weight, bias;
};
Tensor layer_norm(const Tensor& x, const LayerNormWeights& weights, double epsilon);

// w2(silu(w1 x) * w3 x).
struct SwiGluWeights {
  Tensor w1, w2, w3;
};
Tensor swiglu(const Tensor& x, const SwiGluWeights& weights);

// cos and sin of position * theta^(-2k / head_dim), [positions, head_dim / 2]: tables that are
// computed once and kept, like PyTorch's buffers.
struct RopeTables {
  Tensor cos, sin;
};
struct RopeValues {
  std::vector<float> cos, sin;
};
RopeValues rope_values(int64_t positions, int64_t head_dim, double theta);

// Rotates the pairs (2k, 2k + 1) of x [..., S, head_dim] by the angles of its positions.
Tensor rope(const Tensor& x, const RopeTables& tables);
// Rotates the pairs (k, k + head_dim / 2) of x [..., head_dim] by angles that broadcast to
// [..., head_dim / 2].
Tensor rope_of_halves(const Tensor& x, const RopeTables& tables);

// The initial values of a parameter; the same seed and name give the same values on any machine.
std::vector<float> beginning_of(const Parameter& parameter, uint64_t seed);

}  // namespace ridgeline

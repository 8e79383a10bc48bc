// Building graphs so that they read like the maths:
//
//   Tensor scores  = matmul(q, transpose(k)) * (1 / std::sqrt(head_dim));
//   Tensor weights = softmax(scores).named("weights");
//   Tensor output  = matmul(weights, v);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridgeline {

// A value of a graph under construction. Cheap to copy; the graph must outlive it.
class Tensor {
 public:
  Tensor() = default;
  Tensor(Graph& graph, Value value) : graph_(&graph), value_(value) {}

  explicit operator bool() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  Value value() const { return value_; }
  const TensorType& type() const { return graph_->type(value_); }
  const Shape& shape() const { return type().shape; }
  DType dtype() const { return type().dtype; }
  Tensor named(std::string name) const;

 private:
  Graph* graph_ = nullptr;
  Value value_;
};

Tensor input(Graph& graph, std::string name, TensorType type);  // data
// A learned tensor, trained or frozen.
Tensor parameter(Graph& graph, std::string name, TensorType type);
// The input that holds these parameters in one role, stacked along rows; created on first use.
Tensor input_of_parts(Graph& graph, Role role, const std::vector<InputPart>& parts,
                      TensorType type);
// A scalar of the same dtype as `like`, which broadcasts against anything.
Tensor scalar(const Tensor& like, double value);
Tensor iota(Graph& graph, int64_t count);  // 0, 1, 2, ... as i32

// A function for each pointwise op of pointwise_ops.h: exp(x), silu(x), maximum(x, y), less(x, y).
#define RIDGELINE_BUILDER(name, ...) Tensor name(const Tensor& x);
RIDGELINE_UNARY_OPS(RIDGELINE_BUILDER)
#undef RIDGELINE_BUILDER
#define RIDGELINE_BUILDER(name, ...) Tensor name(const Tensor& x, const Tensor& y);
RIDGELINE_BINARY_OPS(RIDGELINE_BUILDER)
RIDGELINE_COMPARISONS(RIDGELINE_BUILDER)
#undef RIDGELINE_BUILDER
Tensor cast(const Tensor& x, DType dtype);
Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no);

Tensor operator-(const Tensor& x);
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);

Tensor softmax(const Tensor& x);  // along the last axis
// The gradient of x, given y = softmax(x) and the gradient of y.
Tensor softmax_gradient(const Tensor& y, const Tensor& d_y);

Tensor log_softmax(const Tensor& x);
// The gradient of x, given y = log_softmax(x) and the gradient of y.
Tensor log_softmax_gradient(const Tensor& y, const Tensor& d_y);

// Reduced axes are kept with size 1. Negative axes count from the end.
Tensor sum(const Tensor& x, const Dims& axes);
Tensor mean(const Tensor& x, const Dims& axes);
Tensor max(const Tensor& x, const Dims& axes);

// [..., M, K] x [..., K, N] -> [..., M, N]; leading axes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);

// softmax(scale f(q k^T) + mask) v as one node, for q [B, H, Sq, D] and k, v [B, Hk, Sk, D].
// `operands` of f broadcast to [B, H, Sq, Sk].
struct AttentionResult {
  Tensor output;       // like q
  Tensor log_sum_exp;  // [B, H, Sq] in fp32; -inf for a query that sees no key
};
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionSpec& spec, std::span<const Tensor> operands = {});

// Attention over keys and values in a cache [B, Hk, slots, D], after the rows of these queries were
// appended at `position` (AttentionSpec::cached). A ring of S slots supports T queries with a
// window of up to S + 1 - T.
AttentionResult cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values,
                                 const Tensor& position, AttentionSpec spec);

struct AttentionGradients {
  Tensor d_q, d_k, d_v;
  std::vector<Tensor> d_operands;  // partial sums (score_function.h); empty: not computed
};
AttentionGradients attention_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& result, const Tensor& d_output,
                                      const AttentionSpec& spec,
                                      std::span<const Tensor> operands = {});

// Rows of table [V, d] by i32 indices [...] -> [..., d].
Tensor gather(const Tensor& table, const Tensor& indices);
// The gradient of the table: zeros [rows, d], plus each of updates [..., d] at the row of its
// index.
Tensor scatter_add(const Tensor& indices, const Tensor& updates, int64_t rows);
// One element of each row of x [..., V] by i32 indices [...] -> [...].
Tensor pick(const Tensor& x, const Tensor& indices);
// The gradient of x: zeros [..., width] except for values [...] at their indices.
Tensor place(const Tensor& indices, const Tensor& values, int64_t width);

// The index of the largest element of each row of x [..., V], as i32 [...]: the first of equal
// ones; a NaN counts as larger than any number.
Tensor argmax(const Tensor& x);

// The sum of the squares of all elements of all tensors, as fp32 [1].
Tensor sum_of_squares(std::span<const Tensor> tensors);

// What one AdamW step updates in place: the inputs must not be read afterwards.
struct AdamWTensors {
  Tensor parameter;                    // all of one floating-point dtype
  Tensor gradient;                     // likewise; of the parameter's shape; not modified
  Tensor first_moment, second_moment;  // fp32
  Tensor copy = {};                    // the parameter in 16 bits; for all parameters or none
};
// `scalars`: fp32 [3], see AdamWScalar. `gradient_scale`: fp32 [1], or none.
std::vector<AdamWTensors> adamw_update(std::span<const AdamWTensors> tensors, const Tensor& scalars,
                                       const Tensor& gradient_scale, AdamWSpec spec);

// The state of a loss scale, fp32 [3], after a step whose gradients have this norm, fp32 [1];
// updated in place.
Tensor loss_scale_update(const Tensor& state, const Tensor& norm, LossScaleSpec spec);

// A cache is a ring of slots along the axis before the last; `position` is i32 [1]: the number of
// rows appended so far. Both are inputs of the graph (Role::cache and Role::step_scalars), so that
// one graph serves every position.
//
//   const Tensor keys = append(key_cache, new_keys, position);  // and values likewise
//   const Tensor y = cached_attention(q, keys, values, position, {.scale = 0.125}).output;
//   advance(position, 1);  // behind everything that reads the old position
//
// Stores row t of rows [..., T, D] in slot (position + t) mod C of cache [..., C, D]; of more than
// C rows only the last C. Updates the cache in place: it must not be read afterwards.
Tensor append(const Tensor& cache, const Tensor& rows, const Tensor& position);
// Adds `count` to the position in place.
Tensor advance(const Tensor& position, int64_t count);
// i32 [slots]: the position whose row each slot holds after `rows` rows were appended at
// `position`; negative where a slot is empty.
Tensor ring_positions(const Tensor& position, int64_t rows, int64_t slots);

// Collectives, in the same order on all ranks. `ranks.purpose` distinguishes otherwise equal ones.
// Shards are those of shard_of (collective_kind.h): ceil(count / ranks) elements.
Tensor all_reduce(const Tensor& x, Ranks ranks);  // the sum; may reuse the storage of x
// This rank's shard of the sum of x [n], zero-padded beyond its end.
Tensor reduce_scatter(const Tensor& x, Ranks ranks);
// The shards of all ranks as [count], without the padding.
Tensor all_gather(const Tensor& shard, int64_t count, Ranks ranks);

// Concatenates along an axis.
Tensor concat(std::span<const Tensor> parts, int axis);

Tensor reshape(const Tensor& x, const Shape& shape);
Tensor permute(const Tensor& x, const Dims& order);
Tensor transpose(const Tensor& x);  // swaps the last two axes
Tensor expand(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end);
// Zeros of size `size` along `axis`, with x at [begin, begin + its size).
Tensor pad(const Tensor& x, int axis, int64_t begin, int64_t size);
// Sums x to `shape`, from which it was broadcast.
Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace ridgeline

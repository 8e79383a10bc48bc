#include "passes/decompose.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "graph/scope.h"
#include "passes/rewrite.h"

namespace ridgeline {
namespace {

using Operands = std::span<const Tensor>;
// What a site becomes, given its operands in at least fp32.
using Expression = Tensor (*)(const Site&, Operands);

Tensor softmax_parts(const Site&, Operands x) {
  const Tensor weights = exp(x[0] - max(x[0], {-1}));
  // One reciprocal for each row instead of a division for each element.
  return weights * (scalar(weights, 1) / sum(weights, {-1}));
}

Tensor softmax_gradient_parts(const Site&, Operands x) {
  const Tensor& y = x[0];
  const Tensor& d_y = x[1];
  return y * (d_y - sum(y * d_y, {-1}));
}

Tensor log_softmax_parts(const Site&, Operands x) {
  const Tensor shifted = x[0] - max(x[0], {-1});
  return shifted - log(sum(exp(shifted), {-1}));
}

// What a cross-entropy sends back is one element of each row, and so is its sum.
Tensor log_softmax_gradient_parts(const Site& site, Operands x) {
  const Tensor& y = x[0];
  const Tensor& d_y = x[1];
  Value placed = site.node.inputs[1];
  while (site.source.node(placed).op == Op::reshape) placed = site.source.node(placed).inputs[0];
  const Node& node = site.source.node(placed);
  Shape rows = y.shape();
  const bool keeps_rows = node.op == Op::place && node.outputs[0].shape.back() == rows.back();
  rows.back() = 1;
  const Tensor total =
      keeps_rows ? cast(reshape(site.now(node.inputs[1]), rows), y.dtype()) : sum(d_y, {-1});
  return d_y - exp(y) * total;
}

Tensor silu_parts(const Site&, Operands x) {
  return x[0] * sigmoid(x[0]);
}

Tensor gelu_tanh_parts(const Site&, Operands x) {
  const Tensor inner = (x[0] + x[0] * x[0] * x[0] * 0.044715) * std::sqrt(2 / std::numbers::pi);
  return x[0] * 0.5 * (tanh(inner) + 1);
}

Tensor silu_gradient_parts(const Site&, Operands operands) {
  const Tensor& x = operands[0];
  const Tensor& d_y = operands[1];
  const Tensor s = sigmoid(x);
  return d_y * (s + x * s * (scalar(s, 1) - s));
}

// Which element of each row is meant: indices [n] against the positions of a row.
Tensor is_chosen(const Tensor& indices, int64_t width) {
  return equal(iota(indices.graph(), width), reshape(indices, {indices.shape()[0], 1}));
}

Tensor pick_parts(const Site& site, Operands x) {
  const Tensor chosen = where(is_chosen(x[1], x[0].shape().back()), x[0], scalar(x[0], 0));
  return reshape(sum(chosen, {-1}), site.node.outputs[0].shape);
}

Tensor place_parts(const Site& site, Operands x) {
  const Tensor& values = x[1];
  const int64_t width = site.node.outputs[0].shape.back();
  return where(is_chosen(x[0], width), reshape(values, {values.shape()[0], 1}), scalar(values, 0));
}

// Null for ops that are no composites, or that have a kernel of their own to the end.
constexpr OpTable<Expression> kParts = {
    [](const PointwiseRow&) -> Expression { return nullptr; },
    {
        {Op::input, nullptr},
        {Op::constant, nullptr},
        {Op::iota, nullptr},
        {Op::silu, silu_parts},
        {Op::gelu_tanh, gelu_tanh_parts},
        {Op::silu_gradient, silu_gradient_parts},
        {Op::softmax, softmax_parts},
        {Op::softmax_gradient, softmax_gradient_parts},
        {Op::log_softmax, log_softmax_parts},
        {Op::log_softmax_gradient, log_softmax_gradient_parts},
        {Op::sum, nullptr},
        {Op::mean, nullptr},
        {Op::max, nullptr},
        {Op::matmul, nullptr},
        {Op::attention, nullptr},
        {Op::attention_gradient, nullptr},
        {Op::gather, nullptr},
        {Op::scatter_add, nullptr},
        {Op::pick, pick_parts},
        {Op::place, place_parts},
        {Op::argmax, nullptr},
        {Op::sum_of_squares, nullptr},
        {Op::adamw_update, nullptr},
        {Op::loss_scale_update, nullptr},
        {Op::append, nullptr},
        {Op::advance, nullptr},
        {Op::ring_positions, nullptr},
        {Op::reshape, nullptr},
        {Op::permute, nullptr},
        {Op::expand, nullptr},
        {Op::slice, nullptr},
        {Op::concat, nullptr},
        {Op::pad, nullptr},
        {Op::all_reduce, nullptr},
        {Op::reduce_scatter, nullptr},
        {Op::all_gather, nullptr},
    },
};

}  // namespace

Graph decompose(const Graph& graph) {
  return rewrite(graph, [](const Site& site) -> std::vector<Value> {
    const Expression parts = kParts[site.node.op];
    if (parts == nullptr) return {};
    // A softmax is still one when it is taken apart: what follows knows it by its scope.
    const std::string_view composite = info(site.node.op).name;
    std::optional<ScopeGuard> scope;
    if (composite.starts_with("softmax") || composite.starts_with("log_softmax"))
      scope.emplace(site.target, kSoftmaxScope);
    std::vector<Tensor> operands;
    for (size_t i = 0; i < site.inputs.size(); ++i) {
      const Tensor x = site.input(i);
      operands.push_back(is_16_bit(x.dtype()) ? cast(x, DType::f32) : x);
    }
    return {cast(parts(site, operands), site.node.outputs[0].dtype).value()};
  });
}

}  // namespace ridgeline

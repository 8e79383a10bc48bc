#include "autodiff/rules.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace ridgeline {
namespace {

using Gradients = std::vector<Tensor>;
using Context = const GradientContext&;

Gradients mean_gradient(Context c) {
  const double count = static_cast<double>(element_count(c.inputs[0].shape())) /
                       static_cast<double>(element_count(c.output.shape()));
  return {expand(c.d_output / count, c.inputs[0].shape())};
}

// Equal maxima share the gradient evenly.
Gradients max_gradient(Context c) {
  const Dims& axes = std::get<Axes>(c.node.attributes.detail).axes;
  const Tensor is_max = cast(equal(c.inputs[0], c.output), c.d_output.dtype());
  return {is_max * (c.d_output / sum(is_max, axes))};
}

Gradients maximum_gradient(Context c) {
  const Tensor& a = c.inputs[0];
  const Tensor& b = c.inputs[1];
  const Tensor half = c.d_output * 0.5;
  const Tensor zero = scalar(c.d_output, 0);
  const auto share = [&](const Tensor& mine, const Tensor& other) {
    return where(equal(mine, other), half, where(less(other, mine), c.d_output, zero));
  };
  return {share(a, b), share(b, a)};
}

Gradients divide_gradient(Context c) {
  const Tensor d_numerator = c.d_output / c.inputs[1];
  if (!c.wanted[1]) return {d_numerator, {}};
  return {d_numerator, -(d_numerator * c.output)};
}

// A weight enters as x W^T. Its gradient is computed the way W lies, so that nobody has to turn it.
bool is_turned_matrix(const Tensor& x) {
  return x.shape().rank() == 2 && x.graph().node(x.value()).op == Op::permute;
}

Gradients matmul_gradient(Context c) {
  Gradients result(2);
  if (c.wanted[1])
    result[1] = is_turned_matrix(c.inputs[1]) && c.d_output.shape().rank() == 2
                    ? transpose(matmul(transpose(c.d_output), c.inputs[0]))
                    : matmul(transpose(c.inputs[0]), c.d_output);
  if (c.wanted[0]) result[0] = matmul(c.d_output, transpose(c.inputs[1]));
  return result;
}

Gradients permute_gradient(Context c) {
  const Dims& order = std::get<Axes>(c.node.attributes.detail).axes;
  Dims inverse = order;
  for (int axis = 0; axis < order.rank(); ++axis) inverse[static_cast<int>(order[axis])] = axis;
  return {permute(c.d_output, inverse)};
}

Gradients attention_rule(Context c) {
  AttentionSpec spec = std::get<AttentionSpec>(c.node.attributes.detail);
  if (spec.cached)
    throw Error(ErrorKind::usage, "attention over a cache has no gradient",
                "train with attention over whole sequences");
  const std::span<const Tensor> operands = std::span(c.inputs).subspan(3);
  for (size_t i = 0; i < operands.size(); ++i)
    if (c.wanted[3 + i] && is_floating(operands[i].dtype())) spec.operand_gradients |= 1u << i;
  const Tensor log_sum_exp(c.output.graph(), {c.output.value().node, 1});
  const AttentionGradients d = attention_gradient(
      c.inputs[0], c.inputs[1], c.inputs[2], {c.output, log_sum_exp}, c.d_output, spec, operands);
  Gradients result = {d.d_q, d.d_k, d.d_v};
  for (size_t i = 0; i < operands.size(); ++i)
    result.push_back(d.d_operands[i]
                         ? cast(sum_to(d.d_operands[i], operands[i].shape()), operands[i].dtype())
                         : Tensor());
  return result;
}

Gradients concat_gradient(Context c) {
  const auto axis = static_cast<int>(std::get<Axes>(c.node.attributes.detail).axes[0]);
  Gradients result;
  int64_t begin = 0;
  for (const Tensor& part : c.inputs) {
    const int64_t end = begin + part.shape()[axis];
    result.push_back(slice(c.d_output, axis, begin, end));
    begin = end;
  }
  return result;
}

Gradients sum_of_squares_gradient(Context c) {
  Gradients result;
  for (const Tensor& x : c.inputs) result.push_back(x * cast(c.d_output * 2, x.dtype()));
  return result;
}

// silu' = s + x s', with s = sigmoid(x) and s' = s (1 - s); silu'' = s' (2 + x (1 - 2 s)).
Gradients silu_gradient_rule(Context c) {
  const Tensor& x = c.inputs[0];
  const Tensor s = sigmoid(x);
  const Tensor one = scalar(x, 1);
  const Tensor curvature = s * (one - s) * (x * (one - s * 2) + 2);
  return {c.d_output * c.inputs[1] * curvature, silu_gradient(x, c.d_output)};
}

// gelu' = (1 + t) / 2 + x (1 - t^2) inner' / 2, with t = tanh(inner); in fp32, as the op itself.
Gradients gelu_tanh_gradient(Context c) {
  const double slope = std::sqrt(2 / std::numbers::pi);
  const Tensor x = cast(c.inputs[0], DType::f32);
  const Tensor square = x * x;
  const Tensor t = tanh(x * (square * (0.044715 * slope) + slope));
  const Tensor d_inner = square * (3 * 0.044715 * slope) + slope;
  const Tensor d_x = (t + 1) * 0.5 + x * (scalar(t, 1) - t * t) * d_inner * 0.5;
  return {cast(cast(c.d_output, DType::f32) * d_x, c.d_output.dtype())};
}

constexpr OpTable<GradientRule> kRules = {
    {Op::input, nullptr},
    {Op::constant, nullptr},
    {Op::iota, nullptr},
    {Op::negate, [](Context c) -> Gradients { return {-c.d_output}; }},
    {Op::exp, [](Context c) -> Gradients { return {c.d_output * c.output}; }},
    {Op::log, [](Context c) -> Gradients { return {c.d_output / c.inputs[0]}; }},
    {Op::sqrt, [](Context c) -> Gradients { return {c.d_output / (c.output * 2)}; }},
    {Op::rsqrt,
     [](Context c) -> Gradients { return {c.d_output * (c.output * c.output * c.output) * -0.5}; }},
    {Op::sin, [](Context c) -> Gradients { return {c.d_output * cos(c.inputs[0])}; }},
    {Op::cos, [](Context c) -> Gradients { return {-(c.d_output * sin(c.inputs[0]))}; }},
    {Op::tanh,
     [](Context c) -> Gradients {
       return {c.d_output * (scalar(c.output, 1) - c.output * c.output)};
     }},
    {Op::sigmoid,
     [](Context c) -> Gradients {
       return {c.d_output * (c.output * (scalar(c.output, 1) - c.output))};
     }},
    {Op::silu, [](Context c) -> Gradients { return {silu_gradient(c.inputs[0], c.d_output)}; }},
    {Op::silu_gradient, silu_gradient_rule},
    {Op::gelu_tanh, gelu_tanh_gradient},
    {Op::cast, [](Context c) -> Gradients { return {cast(c.d_output, c.inputs[0].dtype())}; }},
    {Op::add,
     [](Context c) -> Gradients {
       return {c.d_output, c.d_output};
     }},
    {Op::subtract,
     [](Context c) -> Gradients {
       return {c.d_output, c.wanted[1] ? -c.d_output : Tensor()};
     }},
    {Op::multiply,
     [](Context c) -> Gradients {
       return {c.wanted[0] ? c.d_output * c.inputs[1] : Tensor(),
               c.wanted[1] ? c.d_output * c.inputs[0] : Tensor()};
     }},
    {Op::divide, divide_gradient},
    {Op::maximum, maximum_gradient},
    {Op::less, nullptr},
    {Op::less_equal, nullptr},
    {Op::equal, nullptr},
    {Op::where,
     [](Context c) -> Gradients {
       const Tensor zero = scalar(c.d_output, 0);
       return {Tensor(), c.wanted[1] ? where(c.inputs[0], c.d_output, zero) : Tensor(),
               c.wanted[2] ? where(c.inputs[0], zero, c.d_output) : Tensor()};
     }},
    {Op::softmax, [](Context c) -> Gradients { return {softmax_gradient(c.output, c.d_output)}; }},
    // y and d_y enter as g = y * (d_y - sum(y * d_y)).
    {Op::softmax_gradient,
     [](Context c) -> Gradients {
       const Tensor& y = c.inputs[0];
       const Tensor& d_y = c.inputs[1];
       const Tensor weighted = sum(c.d_output * y, {-1});
       const Tensor inner = sum(y * d_y, {-1});
       return {c.d_output * (d_y - inner) - d_y * weighted, y * (c.d_output - weighted)};
     }},
    {Op::log_softmax,
     [](Context c) -> Gradients { return {log_softmax_gradient(c.output, c.d_output)}; }},
    // y and d_y enter as g = d_y - e^y sum(d_y).
    {Op::log_softmax_gradient,
     [](Context c) -> Gradients {
       const Tensor weights = exp(c.inputs[0]);
       const Tensor weighted = c.d_output * weights;
       return {-(weighted * sum(c.inputs[1], {-1})), c.d_output - sum(weighted, {-1})};
     }},
    {Op::sum, [](Context c) -> Gradients { return {expand(c.d_output, c.inputs[0].shape())}; }},
    {Op::mean, mean_gradient},
    {Op::max, max_gradient},
    {Op::matmul, matmul_gradient},
    {Op::attention, attention_rule},
    {Op::attention_gradient, nullptr},
    {Op::gather,
     [](Context c) -> Gradients {
       return {scatter_add(c.inputs[1], c.d_output, c.inputs[0].shape()[0])};
     }},
    {Op::scatter_add,
     [](Context c) -> Gradients {
       return {Tensor(), gather(c.d_output, c.inputs[0])};
     }},
    {Op::pick,
     [](Context c) -> Gradients {
       return {place(c.inputs[1], c.d_output, c.inputs[0].shape().back())};
     }},
    {Op::place,
     [](Context c) -> Gradients {
       return {Tensor(), pick(c.d_output, c.inputs[0])};
     }},
    {Op::argmax, nullptr},
    {Op::sum_of_squares, sum_of_squares_gradient},
    {Op::adamw_update, nullptr},
    {Op::loss_scale_update, nullptr},
    {Op::append, nullptr},
    {Op::advance, nullptr},
    {Op::ring_positions, nullptr},
    {Op::concat, concat_gradient},
    {Op::reshape,
     [](Context c) -> Gradients { return {reshape(c.d_output, c.inputs[0].shape())}; }},
    {Op::permute, permute_gradient},
    {Op::expand, [](Context c) -> Gradients { return {c.d_output}; }},
    {Op::slice,
     [](Context c) -> Gradients {
       const Range& range = std::get<Range>(c.node.attributes.detail);
       return {pad(c.d_output, range.axis, range.begin, c.inputs[0].shape()[range.axis])};
     }},
    {Op::pad,
     [](Context c) -> Gradients {
       const Range& range = std::get<Range>(c.node.attributes.detail);
       return {slice(c.d_output, range.axis, range.begin, range.end)};
     }},
    {Op::all_reduce, nullptr},
    {Op::reduce_scatter, nullptr},
    {Op::all_gather, nullptr},
};

}  // namespace

GradientRule gradient_rule(Op op) {
  return kRules[op];
}

}  // namespace ridgeline

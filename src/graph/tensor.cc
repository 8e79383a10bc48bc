#include "graph/tensor.h"

namespace ridgeline {
namespace {

Tensor apply(Op op, std::initializer_list<Tensor> inputs, Attributes attributes = {}) {
  std::vector<Value> values;
  for (const Tensor& input : inputs) values.push_back(input.value());
  Graph& graph = inputs.begin()->graph();
  return Tensor(graph, graph.add(op, std::move(values), std::move(attributes)));
}

Dims from_front(const Tensor& x, const Dims& axes) {
  Dims result = axes;
  for (int i = 0; i < axes.rank(); ++i)
    if (axes[i] < 0) result[i] = axes[i] + x.shape().rank();
  return result;
}

Tensor reduce(Op op, const Tensor& x, const Dims& axes) {
  return apply(op, {x}, {Axes{from_front(x, axes)}, {}});
}

}  // namespace

Tensor Tensor::named(std::string name) const {
  graph_->set_name(value_, std::move(name));
  return *this;
}

Tensor input(Graph& graph, std::string name, TensorType type) {
  return Tensor(graph, graph.input(std::move(name), type));
}

Tensor scalar(const Tensor& like, double value) {
  return Tensor(like.graph(), like.graph().constant(value, like.dtype()));
}

Tensor iota(Graph& graph, int64_t count) {
  return Tensor(graph, graph.add(Op::iota, {}, {{}, Target{{DType::i32, {count}}}}));
}

Tensor operator-(const Tensor& x) {
  return apply(Op::negate, {x});
}
Tensor exp(const Tensor& x) {
  return apply(Op::exp, {x});
}
Tensor log(const Tensor& x) {
  return apply(Op::log, {x});
}
Tensor sqrt(const Tensor& x) {
  return apply(Op::sqrt, {x});
}
Tensor rsqrt(const Tensor& x) {
  return apply(Op::rsqrt, {x});
}
Tensor sin(const Tensor& x) {
  return apply(Op::sin, {x});
}
Tensor cos(const Tensor& x) {
  return apply(Op::cos, {x});
}
Tensor tanh(const Tensor& x) {
  return apply(Op::tanh, {x});
}
Tensor sigmoid(const Tensor& x) {
  return apply(Op::sigmoid, {x});
}
Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : apply(Op::cast, {x}, {{}, Target{{dtype, {}}}});
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  return apply(Op::add, {a, b});
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return apply(Op::subtract, {a, b});
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return apply(Op::multiply, {a, b});
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return apply(Op::divide, {a, b});
}
Tensor operator+(const Tensor& a, double b) {
  return a + scalar(a, b);
}
Tensor operator-(const Tensor& a, double b) {
  return a - scalar(a, b);
}
Tensor operator*(const Tensor& a, double b) {
  return a * scalar(a, b);
}
Tensor operator/(const Tensor& a, double b) {
  return a / scalar(a, b);
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return apply(Op::maximum, {a, b});
}
Tensor less(const Tensor& a, const Tensor& b) {
  return apply(Op::less, {a, b});
}
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return apply(Op::less_equal, {a, b});
}
Tensor equal(const Tensor& a, const Tensor& b) {
  return apply(Op::equal, {a, b});
}
Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return apply(Op::where, {condition, yes, no});
}

Tensor softmax(const Tensor& x) {
  return apply(Op::softmax, {x});
}
Tensor softmax_gradient(const Tensor& y, const Tensor& d_y) {
  return apply(Op::softmax_gradient, {y, d_y});
}

Tensor sum(const Tensor& x, const Dims& axes) {
  return reduce(Op::sum, x, axes);
}
Tensor mean(const Tensor& x, const Dims& axes) {
  return reduce(Op::mean, x, axes);
}
Tensor max(const Tensor& x, const Dims& axes) {
  return reduce(Op::max, x, axes);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  return apply(Op::matmul, {a, b});
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionSpec& spec) {
  const Tensor output = apply(Op::attention, {q, k, v}, {spec, {}});
  return {output, Tensor(q.graph(), {output.value().node, 1})};
}

AttentionGradients attention_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& result, const Tensor& d_output,
                                      const AttentionSpec& spec) {
  const Tensor d_q = apply(Op::attention_gradient,
                           {q, k, v, result.output, result.log_sum_exp, d_output}, {spec, {}});
  const uint32_t node = d_q.value().node;
  return {d_q, Tensor(q.graph(), {node, 1}), Tensor(q.graph(), {node, 2})};
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : apply(Op::reshape, {x}, {{}, Target{{x.dtype(), shape}}});
}

Tensor permute(const Tensor& x, const Dims& order) {
  return apply(Op::permute, {x}, {Axes{from_front(x, order)}, {}});
}

Tensor transpose(const Tensor& x) {
  Dims order;
  for (int axis = 0; axis < x.shape().rank(); ++axis) order.push_back(axis);
  std::swap(order.back(0), order.back(1));
  return permute(x, order);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : apply(Op::expand, {x}, {{}, Target{{x.dtype(), shape}}});
}

Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end) {
  return apply(Op::slice, {x}, {Range{axis, begin, end}, {}});
}

Tensor pad(const Tensor& x, int axis, int64_t begin, int64_t size) {
  TensorType padded = x.type();
  padded.shape[axis] = size;
  return apply(Op::pad, {x}, {Range{axis, begin, begin + x.shape()[axis]}, Target{padded}});
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  Dims axes;
  const int extra = x.shape().rank() - shape.rank();
  for (int axis = 0; axis < x.shape().rank(); ++axis)
    if (axis < extra || (shape[axis - extra] == 1 && x.shape()[axis] != 1)) axes.push_back(axis);
  return axes.rank() == 0 ? reshape(x, shape) : reshape(sum(x, axes), shape);
}

}  // namespace ridgeline

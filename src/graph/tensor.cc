#include "graph/tensor.h"

namespace ridgeline {
namespace {

Tensor apply_to_all(Op op, std::span<const Tensor> inputs, Attributes attributes = {}) {
  std::vector<Value> values;
  for (const Tensor& input : inputs) values.push_back(input.value());
  Graph& graph = inputs[0].graph();
  return Tensor(graph, graph.add(op, std::move(values), std::move(attributes)));
}

Tensor apply(Op op, std::initializer_list<Tensor> inputs, Attributes attributes = {}) {
  return apply_to_all(op, std::span(inputs.begin(), inputs.size()), std::move(attributes));
}

Tensor flat(const Tensor& x) {
  return reshape(x, {element_count(x.shape())});
}

// All axes but the last one as one.
Tensor as_rows(const Tensor& x) {
  return reshape(x, {element_count(x.shape()) / x.shape().back(), x.shape().back()});
}

Shape with_width(Shape shape, int64_t width) {
  shape.push_back(width);
  return shape;
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
  return Tensor(graph, graph.input({.name = std::move(name)}, type));
}

Tensor parameter(Graph& graph, std::string name, TensorType type) {
  const int64_t rows = type.shape.rank() > 0 ? type.shape[0] : 0;
  return Tensor(graph, graph.input({name, Role::parameter, {{name, rows}}}, type));
}

Tensor input_of_parts(Graph& graph, Role role, const std::vector<InputPart>& parts,
                      TensorType type) {
  const std::string name = input_name(role, parts);
  const Value value = graph.add(Op::input, {}, {InputInfo{name, role, parts}, Target{type}});
  return Tensor(graph, value).named(name);
}

Tensor scalar(const Tensor& like, double value) {
  return Tensor(like.graph(), like.graph().constant(value, like.dtype()));
}

Tensor iota(Graph& graph, int64_t count) {
  return Tensor(graph, graph.add(Op::iota, {}, {{}, Target{{DType::i32, {count}}}}));
}

#define RIDGELINE_BUILDER(name, ...) \
  Tensor name(const Tensor& x) {     \
    return apply(Op::name, {x});     \
  }
RIDGELINE_UNARY_OPS(RIDGELINE_BUILDER)
#undef RIDGELINE_BUILDER
#define RIDGELINE_BUILDER(name, ...)              \
  Tensor name(const Tensor& x, const Tensor& y) { \
    return apply(Op::name, {x, y});               \
  }
RIDGELINE_BINARY_OPS(RIDGELINE_BUILDER)
RIDGELINE_COMPARISONS(RIDGELINE_BUILDER)
#undef RIDGELINE_BUILDER

Tensor cast(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : apply(Op::cast, {x}, {{}, Target{{dtype, {}}}});
}
Tensor where(const Tensor& condition, const Tensor& yes, const Tensor& no) {
  return apply(Op::where, {condition, yes, no});
}

Tensor operator-(const Tensor& x) {
  return negate(x);
}
Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return subtract(a, b);
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return multiply(a, b);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return divide(a, b);
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

Tensor softmax(const Tensor& x) {
  return apply(Op::softmax, {x});
}
Tensor softmax_gradient(const Tensor& y, const Tensor& d_y) {
  return apply(Op::softmax_gradient, {y, d_y});
}

Tensor log_softmax(const Tensor& x) {
  return apply(Op::log_softmax, {x});
}
Tensor log_softmax_gradient(const Tensor& y, const Tensor& d_y) {
  return apply(Op::log_softmax_gradient, {y, d_y});
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
                          const AttentionSpec& spec, std::span<const Tensor> operands) {
  std::vector<Tensor> inputs = {q, k, v};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const Tensor output = apply_to_all(Op::attention, inputs, {spec, {}});
  return {output, Tensor(q.graph(), {output.value().node, 1})};
}

AttentionResult cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values,
                                 const Tensor& position, AttentionSpec spec) {
  spec.cached = true;
  return attention(q, keys, values, spec, {&position, 1});
}

AttentionGradients attention_gradient(const Tensor& q, const Tensor& k, const Tensor& v,
                                      const AttentionResult& result, const Tensor& d_output,
                                      const AttentionSpec& spec, std::span<const Tensor> operands) {
  std::vector<Tensor> inputs = {q, k, v, result.output, result.log_sum_exp, d_output};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const Tensor d_q = apply_to_all(Op::attention_gradient, inputs, {spec, {}});
  const uint32_t node = d_q.value().node;
  const auto output = [&](uint32_t number) { return Tensor(q.graph(), {node, number}); };
  AttentionGradients gradients{d_q, output(1), output(2), std::vector<Tensor>(operands.size())};
  uint32_t next = 3;
  for (size_t i = 0; i < operands.size(); ++i)
    if ((spec.operand_gradients >> i & 1) != 0) gradients.d_operands[i] = output(next++);
  return gradients;
}

// The kernels see one axis of indices; shapes around it are views.
Tensor gather(const Tensor& table, const Tensor& indices) {
  return reshape(apply(Op::gather, {table, flat(indices)}),
                 with_width(indices.shape(), table.shape().back()));
}

Tensor scatter_add(const Tensor& indices, const Tensor& updates, int64_t rows) {
  const TensorType table{updates.dtype(), {rows, updates.shape().back()}};
  return apply(Op::scatter_add, {flat(indices), as_rows(updates)}, {{}, Target{table}});
}

Tensor pick(const Tensor& x, const Tensor& indices) {
  return reshape(apply(Op::pick, {as_rows(x), flat(indices)}), indices.shape());
}

Tensor place(const Tensor& indices, const Tensor& values, int64_t width) {
  const TensorType rows{values.dtype(), {element_count(indices.shape()), width}};
  return reshape(apply(Op::place, {flat(indices), flat(values)}, {{}, Target{rows}}),
                 with_width(indices.shape(), width));
}

Tensor argmax(const Tensor& x) {
  const Shape rows(x.shape().span().first(static_cast<size_t>(x.shape().rank() - 1)));
  return reshape(apply(Op::argmax, {as_rows(x)}), rows);
}

Tensor sum_of_squares(std::span<const Tensor> tensors) {
  std::vector<Tensor> inputs;
  for (const Tensor& tensor : tensors) inputs.push_back(flat(tensor));
  return apply_to_all(Op::sum_of_squares, inputs);
}

std::vector<AdamWTensors> adamw_update(std::span<const AdamWTensors> tensors, const Tensor& scalars,
                                       const Tensor& gradient_scale, AdamWSpec spec) {
  spec.scaled = static_cast<bool>(gradient_scale);
  spec.copied = !tensors.empty() && static_cast<bool>(tensors[0].copy);
  std::vector<Tensor> inputs = {scalars};
  if (spec.scaled) inputs.push_back(gradient_scale);
  for (const AdamWTensors& each : tensors) inputs.push_back(each.parameter);
  for (const AdamWTensors& each : tensors) inputs.push_back(flat(each.gradient));
  for (const AdamWTensors& each : tensors) inputs.push_back(each.first_moment);
  for (const AdamWTensors& each : tensors) inputs.push_back(each.second_moment);
  if (spec.copied)
    for (const AdamWTensors& each : tensors) inputs.push_back(each.copy);
  Graph& graph = scalars.graph();
  const uint32_t node = apply_to_all(Op::adamw_update, inputs, {spec, {}}).value().node;
  const auto count = static_cast<uint32_t>(tensors.size());
  std::vector<AdamWTensors> results;
  for (uint32_t i = 0; i < count; ++i)
    results.push_back({.parameter = Tensor(graph, {node, i}),
                       .gradient = tensors[i].gradient,
                       .first_moment = Tensor(graph, {node, count + i}),
                       .second_moment = Tensor(graph, {node, 2 * count + i}),
                       .copy = spec.copied ? Tensor(graph, {node, 3 * count + i}) : Tensor()});
  return results;
}

Tensor loss_scale_update(const Tensor& state, const Tensor& norm, LossScaleSpec spec) {
  return apply(Op::loss_scale_update, {state, norm}, {spec, {}});
}

Tensor append(const Tensor& cache, const Tensor& rows, const Tensor& position) {
  return apply(Op::append, {cache, rows, position});
}

Tensor advance(const Tensor& position, int64_t count) {
  return apply(Op::advance, {position}, {RowCount{count}, {}});
}

Tensor ring_positions(const Tensor& position, int64_t rows, int64_t slots) {
  return apply(Op::ring_positions, {position}, {RowCount{rows}, Target{{DType::i32, {slots}}}});
}

Tensor all_reduce(const Tensor& x, Ranks ranks) {
  return apply(Op::all_reduce, {x}, {std::move(ranks), {}});
}

Tensor reduce_scatter(const Tensor& x, Ranks ranks) {
  return apply(Op::reduce_scatter, {x}, {std::move(ranks), {}});
}

Tensor all_gather(const Tensor& shard, int64_t count, Ranks ranks) {
  return apply(Op::all_gather, {shard}, {std::move(ranks), Target{{shard.dtype(), {count}}}});
}

Tensor concat(std::span<const Tensor> parts, int axis) {
  return apply_to_all(Op::concat, parts, {Axes{from_front(parts[0], {axis})}, {}});
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

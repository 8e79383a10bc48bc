// Result types of every op, and the checks that its inputs fit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "graph/collective_kind.h"
#include "graph/score_function.h"

namespace ridgeline {
namespace {

using Types = std::span<const TensorType>;
using Infer = std::vector<TensorType> (*)(Op, Types, const Attributes&);

Error misfit(Op op, Types inputs, std::string_view expected) {
  constexpr size_t kShown = 8;  // a multi-tensor op may have a thousand
  std::vector<std::string> got;
  for (const TensorType& type : inputs.first(std::min(inputs.size(), kShown)))
    got.push_back(to_string(type));
  if (inputs.size() > kShown) got.push_back(fmt::format("... {} more", inputs.size() - kShown));
  return Error(ErrorKind::usage,
               fmt::format("{}({}): expected {}", info(op).name, fmt::join(got, ", "), expected));
}

void require_floating(Op op, Types inputs) {
  for (const TensorType& type : inputs)
    if (!is_floating(type.dtype)) throw misfit(op, inputs, "floating-point inputs");
}

void require_same_dtype(Op op, const TensorType& a, const TensorType& b, Types inputs) {
  if (a.dtype != b.dtype) throw misfit(op, inputs, "inputs of one dtype; cast one of them");
}

void require_axis(Op op, Types inputs, int64_t axis) {
  if (axis < 0 || axis >= inputs[0].shape.rank())
    throw misfit(op, inputs, fmt::format("an axis of the input, not {}", axis));
}

TensorType target(Op op, Types inputs, const Attributes& attributes) {
  for (int64_t size : attributes.target.type.shape)
    if (size < 1) throw misfit(op, inputs, fmt::format("sizes of at least 1, not {}", size));
  element_count(attributes.target.type.shape);
  return attributes.target.type;
}

TensorType iota(Op op, Types inputs, const Attributes& attributes) {
  // Kernels compute in fp32, where integers are exact up to 2^24.
  const TensorType type = target(op, inputs, attributes);
  if (type.shape.rank() != 1 || type.shape[0] > (1 << 24) || type.dtype != DType::i32)
    throw misfit(op, inputs, "one i32 axis of at most 2^24 positions, got " + to_string(type));
  return type;
}

TensorType unary(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  return inputs[0];
}

TensorType cast(Op, Types inputs, const Attributes& attributes) {
  return {attributes.target.type.dtype, inputs[0].shape};
}

TensorType binary(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  require_same_dtype(op, inputs[0], inputs[1], inputs);
  return {inputs[0].dtype, broadcast_shapes(inputs[0].shape, inputs[1].shape)};
}

TensorType comparison(Op op, Types inputs, const Attributes&) {
  require_same_dtype(op, inputs[0], inputs[1], inputs);
  return {DType::boolean, broadcast_shapes(inputs[0].shape, inputs[1].shape)};
}

TensorType where(Op op, Types inputs, const Attributes&) {
  if (inputs[0].dtype != DType::boolean) throw misfit(op, inputs, "a boolean condition");
  require_same_dtype(op, inputs[1], inputs[2], inputs);
  const Shape chosen = broadcast_shapes(inputs[1].shape, inputs[2].shape);
  return {inputs[1].dtype, broadcast_shapes(inputs[0].shape, chosen)};
}

TensorType row(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  if (inputs[0].shape.rank() < 1) throw misfit(op, inputs, "at least one axis");
  for (const TensorType& type : inputs)
    if (type != inputs[0]) throw misfit(op, inputs, "inputs of one type");
  return inputs[0];
}

TensorType reduction(Op op, Types inputs, const Attributes& attributes) {
  require_floating(op, inputs);
  TensorType result = inputs[0];
  for (int64_t axis : std::get<Axes>(attributes.detail).axes) {
    require_axis(op, inputs, axis);
    result.shape[static_cast<int>(axis)] = 1;
  }
  return result;
}

TensorType matmul(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  require_same_dtype(op, inputs[0], inputs[1], inputs);
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  if (a.rank() < 2 || b.rank() < 2 || a.back(0) != b.back(1))
    throw misfit(op, inputs, "[..., M, K] and [..., K, N]");
  const Shape batch = broadcast_shapes(Shape(a.span().first(static_cast<size_t>(a.rank() - 2))),
                                       Shape(b.span().first(static_cast<size_t>(b.rank() - 2))));
  TensorType result{inputs[0].dtype, batch};
  result.shape.push_back(a.back(1));
  result.shape.push_back(b.back(0));
  return result;
}

TensorType reshape(Op op, Types inputs, const Attributes& attributes) {
  const Shape& wanted = target(op, inputs, attributes).shape;
  if (element_count(wanted) != element_count(inputs[0].shape))
    throw misfit(op, inputs, "as many elements as " + to_string(wanted));
  return {inputs[0].dtype, wanted};
}

TensorType permute(Op op, Types inputs, const Attributes& attributes) {
  const Dims& order = std::get<Axes>(attributes.detail).axes;
  TensorType result = inputs[0];
  unsigned seen = 0;
  if (order.rank() != result.shape.rank()) throw misfit(op, inputs, "every axis once");
  for (int axis = 0; axis < order.rank(); ++axis) {
    require_axis(op, inputs, order[axis]);
    seen |= 1u << order[axis];
    result.shape[axis] = inputs[0].shape[static_cast<int>(order[axis])];
  }
  if (seen != (1u << order.rank()) - 1) throw misfit(op, inputs, "every axis once");
  return result;
}

TensorType expand(Op op, Types inputs, const Attributes& attributes) {
  const Shape& wanted = target(op, inputs, attributes).shape;
  if (broadcast_shapes(inputs[0].shape, wanted) != wanted)
    throw misfit(op, inputs, "a shape that broadcasts to " + to_string(wanted));
  return {inputs[0].dtype, wanted};
}

TensorType slice(Op op, Types inputs, const Attributes& attributes) {
  const Range& range = std::get<Range>(attributes.detail);
  require_axis(op, inputs, range.axis);
  TensorType result = inputs[0];
  if (range.begin < 0 || range.end <= range.begin || range.end > result.shape[range.axis])
    throw misfit(
        op, inputs,
        fmt::format("a range inside axis {}, not [{}, {})", range.axis, range.begin, range.end));
  result.shape[range.axis] = range.end - range.begin;
  return result;
}

TensorType pad(Op op, Types inputs, const Attributes& attributes) {
  const Range& range = std::get<Range>(attributes.detail);
  require_axis(op, inputs, range.axis);
  TensorType result{inputs[0].dtype, target(op, inputs, attributes).shape};
  TensorType inner = slice(op, {&result, 1}, attributes);
  if (inner != inputs[0]) throw misfit(op, inputs, "an input of the padded range's size");
  return result;
}

// The operands of f, each [B, H, Sq, Sk] or 1 where it is broadcast.
void require_operands(Op op, Types inputs, size_t first, const AttentionSpec& spec) {
  const Shape &q = inputs[0].shape, &k = inputs[1].shape;
  const size_t expected = spec.function == nullptr ? 0 : operand_count(*spec.function);
  if (inputs.size() != first + expected || expected > kMaxScoreOperands)
    throw misfit(op, inputs, fmt::format("{} inputs", first + expected));
  const Shape scores = {q[0], q[1], q[2], k[2]};
  for (const TensorType& operand : inputs.subspan(first))
    if (operand.shape.rank() != 4 || broadcast_shapes(operand.shape, scores) != scores)
      throw misfit(op, inputs, "operands that broadcast to the scores " + to_string(scores));
}

// q, k, v as [batch, heads, sequence, width]; groups of query heads may share a key head.
std::vector<TensorType> attention_results(Op op, Types inputs, const AttentionSpec& spec) {
  if (inputs.size() < 3) throw misfit(op, inputs, "queries, keys and values");
  require_floating(op, inputs.first(3));
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const bool fits = q.rank() == 4 && k.rank() == 4 && inputs[1] == inputs[2] && q[0] == k[0] &&
                    q[1] % k[1] == 0 && q[3] == k[3] && inputs[0].dtype == inputs[1].dtype;
  if (!fits)
    throw misfit(op, inputs, "q [B, H, Sq, D] and k, v [B, Hk, Sk, D], H a multiple of Hk");
  if (spec.mask.window < 0)
    throw Error(ErrorKind::usage,
                fmt::format("{}: the window is {}", info(op).name, spec.mask.window),
                "use 0 for no window");
  if (spec.function != nullptr && !(spec.scale > 0))
    throw Error(ErrorKind::usage,
                fmt::format("{}: the scale {} of a score function is not above 0", info(op).name,
                            spec.scale),
                "put the sign into the function");
  return {inputs[0], {DType::f32, {q[0], q[1], q[2]}}};
}

void require_position(Op op, Types inputs, const TensorType& type) {
  if (type != TensorType{DType::i32, {1}}) throw misfit(op, inputs, "the position as i32[1]");
}

std::vector<TensorType> attention(Op op, Types inputs, const Attributes& attributes) {
  const auto& spec = std::get<AttentionSpec>(attributes.detail);
  std::vector<TensorType> results = attention_results(op, inputs, spec);
  if (!spec.cached) {
    require_operands(op, inputs, 3, spec);
  } else {
    if (inputs.size() != 4 || spec.function != nullptr)
      throw misfit(op, inputs, "queries, cached keys and values, and the position");
    require_position(op, inputs, inputs[3]);
  }
  return results;
}

std::vector<TensorType> attention_gradient(Op op, Types inputs, const Attributes& attributes) {
  const auto& spec = std::get<AttentionSpec>(attributes.detail);
  const std::vector<TensorType> forward = attention_results(op, inputs, spec);
  if (inputs.size() < 6 || inputs[3] != forward[0] || inputs[4] != forward[1] ||
      inputs[5] != forward[0])
    throw misfit(op, inputs,
                 "the inputs and results of an attention node, then the gradient of its output");
  require_operands(op, inputs, 6, spec);
  std::vector<TensorType> results = {inputs[0], inputs[1], inputs[2]};
  const int64_t queries = inputs[0].shape[2], keys = inputs[1].shape[2];
  for (size_t i = 6; i < inputs.size(); ++i) {
    if ((spec.operand_gradients >> (i - 6) & 1) == 0) continue;
    const Shape& operand = inputs[i].shape;
    const bool along_diagonals = (spec.diagonal_gradients >> (i - 6) & 1) != 0;
    if (along_diagonals && (operand[2] != queries || operand[3] != keys))
      throw misfit(op, inputs, "operands with all queries and keys where diagonals are added up");
    results.push_back({DType::f32, along_diagonals ? diagonal_sums(operand)
                                                   : operand_sums(operand, queries, keys)});
  }
  return results;
}

// Tensors of many shapes are read flat.
void require_flat(Op op, Types inputs, const TensorType& type) {
  if (type.shape.rank() != 1) throw misfit(op, inputs, "one axis: reshape it");
}

void require_indices(Op op, Types inputs, const TensorType& type) {
  if (type.dtype != DType::i32 || type.shape.rank() != 1)
    throw misfit(op, inputs, "indices as one i32 axis");
}

TensorType gather(Op op, Types inputs, const Attributes&) {
  require_indices(op, inputs, inputs[1]);
  if (inputs[0].shape.rank() != 2) throw misfit(op, inputs, "a table [rows, width]");
  return {inputs[0].dtype, {inputs[1].shape[0], inputs[0].shape[1]}};
}

TensorType scatter_add(Op op, Types inputs, const Attributes& attributes) {
  require_indices(op, inputs, inputs[0]);
  require_floating(op, inputs.subspan(1));
  const TensorType result{inputs[1].dtype, target(op, inputs, attributes).shape};
  const Shape& updates = inputs[1].shape;
  if (result.shape.rank() != 2 || updates != Shape{inputs[0].shape[0], result.shape[1]})
    throw misfit(op, inputs, "one row for each index, as wide as those of " + to_string(result));
  return result;
}

TensorType pick(Op op, Types inputs, const Attributes&) {
  require_indices(op, inputs, inputs[1]);
  if (inputs[0].shape.rank() != 2 || inputs[0].shape[0] != inputs[1].shape[0])
    throw misfit(op, inputs, "rows [n, width] and n indices");
  return {inputs[0].dtype, inputs[1].shape};
}

TensorType place(Op op, Types inputs, const Attributes& attributes) {
  require_indices(op, inputs, inputs[0]);
  const TensorType result{inputs[1].dtype, target(op, inputs, attributes).shape};
  const bool fits = result.shape.rank() == 2 && result.shape[0] == inputs[0].shape[0] &&
                    inputs[1].shape == inputs[0].shape;
  if (!fits) throw misfit(op, inputs, "n indices and n values for " + to_string(result));
  return result;
}

TensorType argmax(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  if (inputs[0].shape.rank() != 2 || inputs[0].shape[1] > INT32_MAX)
    throw misfit(op, inputs, "rows [n, width] whose width an i32 counts");
  return {DType::i32, {inputs[0].shape[0]}};
}

TensorType sum_of_squares(Op op, Types inputs, const Attributes&) {
  require_floating(op, inputs);
  for (const TensorType& type : inputs) {
    require_same_dtype(op, inputs[0], type, inputs);
    require_flat(op, inputs, type);
  }
  return {DType::f32, {1}};
}

std::vector<TensorType> adamw_update(Op op, Types inputs, const Attributes& attributes) {
  const auto& spec = std::get<AdamWSpec>(attributes.detail);
  const size_t first = spec.first_parameter();
  const size_t kinds = spec.results_of_each() + 1;  // and gradients
  const size_t count = inputs.size() < first ? 0 : (inputs.size() - first) / kinds;
  if (count == 0 || inputs.size() != first + kinds * count)
    throw misfit(op, inputs,
                 "scalars, then parameters, gradients and two moments of each, and their copies");
  if (inputs[0] != TensorType{DType::f32, {kAdamWScalars}} ||
      (spec.scaled && inputs[1] != TensorType{DType::f32, {1}}))
    throw misfit(op, inputs, "fp32 scalars first: [3], and [1] if gradients are scaled");
  require_floating(op, inputs);
  std::vector<TensorType> results;
  for (size_t i = 0; i < count; ++i) {
    const TensorType& parameter = inputs[first + i];
    const TensorType& d_parameter = inputs[first + count + i];
    require_same_dtype(op, inputs[first], parameter, inputs);
    require_same_dtype(op, inputs[first + count], d_parameter, inputs);
    require_flat(op, inputs, d_parameter);
    const TensorType moment{DType::f32, parameter.shape};
    if (d_parameter.shape[0] != element_count(parameter.shape) ||
        inputs[first + 2 * count + i] != moment || inputs[first + 3 * count + i] != moment)
      throw misfit(op, inputs, "a flat gradient and two fp32 moments of each parameter's size");
    results.push_back(parameter);
    if (!spec.copied) continue;
    const TensorType& copy = inputs[first + 4 * count + i];
    require_same_dtype(op, inputs[first + 4 * count], copy, inputs);
    if (copy.shape != parameter.shape || !is_16_bit(copy.dtype))
      throw misfit(op, inputs, "copies of the parameters' shapes in 16 bits");
  }
  for (size_t i = 2 * count; i < kinds * count; ++i) results.push_back(inputs[first + i]);
  return results;
}

TensorType loss_scale_update(Op op, Types inputs, const Attributes&) {
  if (inputs[0] != TensorType{DType::f32, {kLossScaleState}} ||
      inputs[1] != TensorType{DType::f32, {1}})
    throw misfit(op, inputs, "an fp32 state [3] and a norm [1]");
  return inputs[0];
}

TensorType append(Op op, Types inputs, const Attributes&) {
  const TensorType &cache = inputs[0], &rows = inputs[1];
  require_same_dtype(op, cache, rows, inputs);
  require_position(op, inputs, inputs[2]);
  TensorType expected = cache;
  if (cache.shape.rank() >= 2 && rows.shape.rank() == cache.shape.rank())
    expected.shape.back(1) = rows.shape.back(1);
  if (cache.shape.rank() < 2 || rows != expected)
    throw misfit(op, inputs, "a cache [..., slots, width] and rows [..., count, width]");
  return cache;
}

TensorType advance(Op op, Types inputs, const Attributes& attributes) {
  require_position(op, inputs, inputs[0]);
  const int64_t count = std::get<RowCount>(attributes.detail).count;
  if (count < 0 || count > INT32_MAX)
    throw misfit(op, inputs, fmt::format("a count that an i32 holds, not {}", count));
  return inputs[0];
}

TensorType ring_positions(Op op, Types inputs, const Attributes& attributes) {
  require_position(op, inputs, inputs[0]);
  const int64_t count = std::get<RowCount>(attributes.detail).count;
  const TensorType type = target(op, inputs, attributes);
  if (count < 0 || count > INT32_MAX || type.dtype != DType::i32 || type.shape.rank() != 1)
    throw misfit(op, inputs,
                 fmt::format("one i32 axis of slots and a count of rows, got {} and {}",
                             to_string(type), count));
  return type;
}

TensorType concat(Op op, Types inputs, const Attributes& attributes) {
  const Dims& axes = std::get<Axes>(attributes.detail).axes;
  if (axes.rank() != 1) throw misfit(op, inputs, "one axis");
  require_axis(op, inputs, axes[0]);
  const auto axis = static_cast<int>(axes[0]);
  TensorType result = inputs[0];
  result.shape[axis] = 0;
  for (const TensorType& type : inputs) {
    Shape expected = inputs[0].shape;
    if (type.shape.rank() == expected.rank()) expected[axis] = type.shape[axis];
    if (type != TensorType{inputs[0].dtype, expected})
      throw misfit(op, inputs, fmt::format("inputs that differ only along axis {}", axis));
    result.shape[axis] += type.shape[axis];
  }
  return result;
}

// Elements of the first shard, which is the largest.
int64_t shard_size(Op op, Types inputs, int64_t count, const Attributes& attributes) {
  const int ranks = std::get<Ranks>(attributes.detail).count;
  if (ranks < 1) throw misfit(op, inputs, fmt::format("at least one rank, not {}", ranks));
  require_floating(op, inputs);
  return shard_of(count, 0, ranks).count;
}

TensorType all_reduce(Op op, Types inputs, const Attributes& attributes) {
  shard_size(op, inputs, 1, attributes);
  return inputs[0];
}

TensorType reduce_scatter(Op op, Types inputs, const Attributes& attributes) {
  require_flat(op, inputs, inputs[0]);
  return {inputs[0].dtype, {shard_size(op, inputs, inputs[0].shape[0], attributes)}};
}

TensorType all_gather(Op op, Types inputs, const Attributes& attributes) {
  const TensorType whole{inputs[0].dtype, target(op, inputs, attributes).shape};
  if (whole.shape.rank() != 1 ||
      inputs[0].shape != Shape{shard_size(op, inputs, whole.shape[0], attributes)})
    throw misfit(op, inputs, "the shard of a rank of " + to_string(whole));
  return whole;
}

template <TensorType (*rule)(Op, Types, const Attributes&)>
std::vector<TensorType> one(Op op, Types inputs, const Attributes& attributes) {
  return {rule(op, inputs, attributes)};
}

constexpr Infer pointwise(const PointwiseRow& row) {
  switch (row.kind) {
    case PointwiseKind::unary:
      return one<unary>;
    case PointwiseKind::binary:
      return one<binary>;
    case PointwiseKind::comparison:
      return one<comparison>;
    case PointwiseKind::cast:
      return one<cast>;
    case PointwiseKind::where:
      return one<where>;
  }
  return nullptr;
}

constexpr OpTable<Infer> kRules = {
    pointwise,
    {
        {Op::input, one<target>},
        {Op::constant, one<target>},
        {Op::iota, one<iota>},
        {Op::softmax, one<row>},
        {Op::softmax_gradient, one<row>},
        {Op::sum, one<reduction>},
        {Op::mean, one<reduction>},
        {Op::max, one<reduction>},
        {Op::matmul, one<matmul>},
        {Op::attention, attention},
        {Op::attention_gradient, attention_gradient},
        {Op::reshape, one<reshape>},
        {Op::permute, one<permute>},
        {Op::expand, one<expand>},
        {Op::slice, one<slice>},
        {Op::pad, one<pad>},
        {Op::log_softmax, one<row>},
        {Op::log_softmax_gradient, one<row>},
        {Op::gather, one<gather>},
        {Op::scatter_add, one<scatter_add>},
        {Op::pick, one<pick>},
        {Op::place, one<place>},
        {Op::argmax, one<argmax>},
        {Op::sum_of_squares, one<sum_of_squares>},
        {Op::adamw_update, adamw_update},
        {Op::loss_scale_update, one<loss_scale_update>},
        {Op::append, one<append>},
        {Op::advance, one<advance>},
        {Op::ring_positions, one<ring_positions>},
        {Op::concat, one<concat>},
        {Op::all_reduce, one<all_reduce>},
        {Op::reduce_scatter, one<reduce_scatter>},
        {Op::all_gather, one<all_gather>},
    },
};

}  // namespace

std::vector<TensorType> infer_types(Op op, Types inputs, const Attributes& attributes) {
  const int expected = info(op).inputs;
  if (expected == kAnyNumber && inputs.empty()) throw misfit(op, inputs, "at least one input");
  if (expected != kAnyNumber && static_cast<int>(inputs.size()) != expected)
    throw misfit(op, inputs, fmt::format("{} inputs", expected));
  std::vector<TensorType> results = kRules[op](op, inputs, attributes);
  for (const TensorType& result : results) element_count(result.shape);  // throws when it overflows
  return results;
}

}  // namespace ridgeline

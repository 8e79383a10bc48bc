#include "passes/heads.h"

#include <optional>

namespace ridgeline {
namespace {

const Node& maker(const Tensor& x) {
  return x.graph().node(x.value());
}

Tensor operand(const Tensor& x) {
  return Tensor(x.graph(), maker(x).inputs[0]);
}

Dims identity(int rank) {
  Dims order;
  for (int axis = 0; axis < rank; ++axis) order.push_back(axis);
  return order;
}

Shape joined(const Shape& leading, const Shape& matrix) {
  Shape result = leading;
  result.push_back(matrix.back(1));
  result.push_back(matrix.back(0));
  return result;
}

// Leading axes of x, with ones in front so that there are `rank`.
Shape leading_of(const Tensor& x, int rank) {
  Shape result;
  const int own = x.shape().rank() - 2;
  for (int axis = 0; axis < rank; ++axis)
    result.push_back(axis < rank - own ? 1 : x.shape()[axis - (rank - own)]);
  return result;
}

int64_t product(const Shape& shape, int begin, int end) {
  int64_t result = 1;
  for (int axis = begin; axis < end; ++axis) result *= shape[axis];
  return result;
}

// How many of the leading axes come before those along which x is broadcast; none if the two kinds
// are mixed.
std::optional<int> full_axes(const Shape& own, const Shape& leading) {
  int full = leading.rank();
  while (full > 0 && own[full - 1] == 1 && leading[full - 1] != 1) --full;
  for (int axis = 0; axis < full; ++axis)
    if (own[axis] != leading[axis]) return std::nullopt;
  return full;
}

// The key heads [B, Hk, S, D] behind x [B, Hk * G, S, D], each of which stands there G times in a
// row: the expand of an axis of its own, merged into the axis of heads by a reshape.
Tensor without_repeats(const Tensor& x) {
  if (maker(x).op == Op::expand) {
    const Tensor base = operand(x);
    const bool only_heads = base.shape().rank() == 4 && base.shape()[0] == x.shape()[0] &&
                            base.shape().back(1) == x.shape().back(1) &&
                            base.shape().back(0) == x.shape().back(0);
    return only_heads ? base : x;
  }
  const bool is_permuted = maker(x).op == Op::permute;
  const Dims order = is_permuted ? std::get<Axes>(maker(x).attributes.detail).axes : identity(4);
  const Tensor merged = is_permuted ? operand(x) : x;
  if (maker(merged).op != Op::reshape || maker(operand(merged)).op != Op::expand) return x;
  const Tensor repeated = operand(merged);
  const Tensor base = operand(repeated);
  if (repeated.shape().rank() != 5 || base.shape().rank() != 5) return x;
  const auto heads = static_cast<int>(order[1]);  // their axis before the permute
  Shape single = merged.shape();
  single[heads] = base.shape()[heads];
  for (int axis = 0; axis < 5; ++axis) {
    const bool is_group = axis == heads + 1;
    const int before = axis <= heads ? axis : axis - 1;
    if (base.shape()[axis] != (is_group ? 1 : repeated.shape()[axis])) return x;
    if (!is_group && axis != heads && repeated.shape()[axis] != merged.shape()[before]) return x;
  }
  const Tensor found = reshape(base, single);
  return is_permuted ? permute(found, order) : found;
}

}  // namespace

Tensor turned(const Tensor& x) {
  if (maker(x).op != Op::permute) return transpose(x);
  Dims order = std::get<Axes>(maker(x).attributes.detail).axes;
  std::swap(order.back(0), order.back(1));
  return order == identity(order.rank()) ? operand(x) : permute(operand(x), order);
}

Tensor as_score_operand(const Tensor& x, const Shape& leading, int64_t batch) {
  const int rank = leading.rank();
  Shape shape;
  for (int axis = x.shape().rank(); axis < 2; ++axis) shape.push_back(1);
  for (int64_t size : x.shape()) shape.push_back(size);
  const Tensor matrix = reshape(x, shape);
  const Shape own = leading_of(matrix, rank);
  int batch_axes = 0;
  while (product(leading, 0, batch_axes) != batch) ++batch_axes;
  // Leading axes that become one are all there, or none of them is.
  Shape whole = own;
  const auto complete = [&](int begin, int end) {
    if (product(own, begin, end) != 1)
      for (int axis = begin; axis < end; ++axis) whole[axis] = leading[axis];
  };
  complete(0, batch_axes);
  complete(batch_axes, rank);
  return reshape(expand(matrix, joined(whole, shape)),
                 {product(whole, 0, batch_axes), product(whole, batch_axes, rank), shape.back(1),
                  shape.back(0)});
}

Heads as_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Shape& leading) {
  const int rank = leading.rank();
  Shape key_leading = leading_of(k, rank);
  const Shape value_leading = leading_of(v, rank);
  std::optional<int> full = full_axes(key_leading, leading);
  // Batch and heads stay two axes: to make one of them could mean to copy the queries.
  const bool usable = key_leading == value_leading && full && (rank != 2 || *full > 0);
  if (!usable) {
    key_leading = leading;
    full = rank;
  }
  // Before the last full axis comes the batch; a single one is the batch.
  const int batch_axes = *full >= 2 ? *full - 1 : *full;
  const int64_t batch = product(leading, 0, batch_axes);
  const int64_t key_heads = product(leading, batch_axes, *full);
  const int64_t heads = key_heads * product(leading, *full, rank);
  const auto shaped = [&](const Tensor& x, const Shape& own, int64_t count) {
    const Tensor whole = expand(x, joined(own, x.shape()));
    return reshape(whole, {batch, count, x.shape().back(1), x.shape().back(0)});
  };
  Heads result{shaped(q, leading, heads), shaped(k, key_leading, key_heads),
               shaped(v, key_leading, key_heads)};
  const Tensor single_k = without_repeats(result.k);
  const Tensor single_v = without_repeats(result.v);
  if (single_k.shape() == single_v.shape()) {
    result.k = single_k;
    result.v = single_v;
  }
  return result;
}

}  // namespace ridgeline

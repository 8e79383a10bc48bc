#include "support/exact_graph.h"

#include <limits>

namespace ridgeline::testing {
namespace {

constexpr double kLargest = 8;  // up to which numbers stay as they are (small)

}  // namespace

RandomGraph ExactGraphMaker::make(int ops) {
  RandomGraph result;
  made_ = &result;
  pool_.clear();
  conditions_.clear();
  position_ = cache_ = {};
  for (int i = 0; i < 3; ++i) pool_.push_back(add_input(floating(), shape(0, most_elements_)));
  int stages = 1;
  std::vector<Tensor> outputs;
  for (int i = 0; i < ops; ++i) {
    if (one_in(ops)) result.graph.begin_stage("stage" + std::to_string(++stages));
    result.graph.enter_scope("layers." + std::to_string(i / 2));
    pool_.push_back(step());
    if (one_in(4)) outputs.push_back(pool_.back());
  }
  outputs.push_back(pool_.back());
  outputs.push_back(views(pick()));
  outputs.push_back(outputs[static_cast<size_t>(below(static_cast<int64_t>(outputs.size())))]);
  if (!conditions_.empty() && one_in(2)) outputs.push_back(conditions_.back());
  if (cache_) outputs.push_back(cache_);
  for (size_t i = 0; i < outputs.size(); ++i)
    result.graph.mark_output("out" + std::to_string(i), outputs[i].value());
  return result;
}

int64_t ExactGraphMaker::below(int64_t bound) {
  return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
}

DType ExactGraphMaker::floating() {
  static constexpr DType kDTypes[] = {DType::f32, DType::f32, DType::bf16, DType::f16};
  return kDTypes[below(4)];
}

int64_t ExactGraphMaker::size() {
  static constexpr int64_t kSizes[] = {1, 1, 1, 2, 2, 3, 4, 5, 8, 16, 17, 33, 70};
  static constexpr int64_t kLargeSizes[] = {1, 2, 3, 16, 63, 64, 65, 127, 128, 129, 257, 600, 1025};
  return is_large_ ? kLargeSizes[below(std::size(kLargeSizes))] : kSizes[below(std::size(kSizes))];
}

Shape ExactGraphMaker::shape(int least_rank, int64_t most_elements) {
  const auto rank = least_rank + static_cast<int>(below(5 - least_rank));
  Shape result;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size = this->size();
    result.push_back(element_count(result) * size <= most_elements ? size : 1);
  }
  return result;
}

Tensor ExactGraphMaker::add_input(DType dtype, const Shape& shape, Role role) {
  const std::string name = "in" + std::to_string(made_->inputs.size());
  const double infinity = std::numeric_limits<double>::infinity();
  const double specials[] = {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  const bool has_specials = one_in(4);
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& value : values) {
    value = static_cast<double>(dtype == DType::boolean ? below(2) : below(9) - 4);
    if (has_specials && is_floating(dtype) && one_in(12)) value = specials[below(3)];
  }
  made_->inputs[name] = std::move(values);
  return role == Role::parameter ? parameter(made_->graph, name, {dtype, shape})
                                 : input(made_->graph, name, {dtype, shape});
}

Tensor ExactGraphMaker::pick() {
  return pool_[static_cast<size_t>(below(static_cast<int64_t>(pool_.size())))];
}

// A number between -8 and 8 again; infinities and NaN stay.
Tensor ExactGraphMaker::small(const Tensor& x) {
  const Tensor limit = scalar(x, kLargest);
  const Tensor huge = scalar(x, x.dtype() == DType::f16 ? 60000 : 1e30);
  const Tensor upper = where(less(limit, x), where(less(x, huge), limit, x), x);
  const Tensor is_low = less(upper, -limit);
  return where(is_low, where(less(-huge, upper), -limit, upper), upper);
}

Tensor ExactGraphMaker::pick_condition(const Shape& like) {
  for (int tries = 0; tries < 3 && !conditions_.empty(); ++tries) {
    const Tensor known =
        conditions_[static_cast<size_t>(below(static_cast<int64_t>(conditions_.size())))];
    bool fits = known.shape().rank() <= like.rank();
    for (int axis = 0; fits && axis < known.shape().rank(); ++axis)
      fits = known.shape().back(axis) == 1 || known.shape().back(axis) == like.back(axis);
    if (fits) return known;
  }
  Shape part = like;
  for (int axis = 0; axis < part.rank(); ++axis)
    if (one_in(3)) part[axis] = 1;
  Tensor condition;
  if (part.rank() >= 2 && one_in(2)) {  // by positions
    const Tensor row = iota(made_->graph, part.back(0));
    const Tensor column = reshape(iota(made_->graph, part.back(1)), {part.back(1), 1});
    condition = one_in(2)   ? less_equal(row, column)
                : one_in(2) ? less(column, row)
                            : equal(row, column);
  } else if (one_in(2)) {
    condition = add_input(DType::boolean, part);
  } else {
    const Tensor x = add_input(one_in(2) ? DType::i32 : floating(), part);
    const Tensor y = scalar(x, static_cast<double>(below(5) - 2));
    condition = one_in(3) ? less(x, y) : one_in(2) ? less_equal(y, x) : equal(x, y);
  }
  conditions_.push_back(condition);
  return condition;
}

Tensor ExactGraphMaker::partner(const Tensor& x) {
  for (int tries = 0; tries < 3; ++tries) {
    const Tensor other = pick();
    bool fits = true;
    for (int axis = 0; axis < std::min(x.shape().rank(), other.shape().rank()); ++axis) {
      const int64_t a = x.shape().back(axis), b = other.shape().back(axis);
      fits = fits && (a == b || a == 1 || b == 1);
    }
    if (fits && element_count(broadcast_shapes(x.shape(), other.shape())) <= most_elements_)
      return cast(other, x.dtype());
  }
  Shape part = x.shape();
  for (int axis = 0; axis < part.rank(); ++axis)
    if (one_in(2)) part[axis] = 1;
  const Tensor fresh = add_input(x.dtype(), part);
  pool_.push_back(fresh);
  return fresh;
}

Tensor ExactGraphMaker::view(const Tensor& x) {
  const int rank = x.shape().rank();
  const int64_t count = element_count(x.shape());
  if (rank == 0) return one_in(2) ? reshape(x, {1, 1}) : expand(x, {1 + below(4), 1 + below(3)});
  const auto axis = static_cast<int>(below(rank));
  const int64_t size = x.shape()[axis];
  switch (below(6)) {
    case 0: {
      Dims order;
      for (int i = 0; i < rank; ++i) order.push_back(i);
      for (int i = rank - 1; i > 0; --i) std::swap(order[i], order[static_cast<int>(below(i + 1))]);
      return permute(x, order);
    }
    case 1: {  // one axis becomes two, or two become one
      Shape shape;
      if (rank >= 2 && axis + 1 < rank && one_in(2)) {
        for (int i = 0; i < rank; ++i)
          if (i == axis + 1)
            shape.back() *= x.shape()[i];
          else
            shape.push_back(x.shape()[i]);
      } else if (rank < 5) {
        const int64_t part = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : one_in(2) ? size : 1;
        for (int i = 0; i < rank; ++i) {
          shape.push_back(i == axis ? size / part : x.shape()[i]);
          if (i == axis) shape.push_back(part);
        }
      } else {
        shape = {count};
      }
      return reshape(x, shape);
    }
    case 2:
      return reshape(x,
                     one_in(2) ? Shape{count} : Shape{count / x.shape().back(), x.shape().back()});
    case 3: {
      const int64_t begin = below(size), end = begin + 1 + below(size - begin);
      return slice(x, axis, begin, end);
    }
    case 4: {
      Shape wanted = x.shape();
      for (int i = 0; i < rank; ++i)
        if (wanted[i] == 1 && one_in(2)) wanted[i] = 1 + below(4);
      if (rank < 4 && one_in(3)) {
        Shape more = {1 + below(3)};
        for (int64_t each : wanted) more.push_back(each);
        wanted = more;
      }
      return element_count(wanted) <= most_elements_ ? expand(x, wanted) : x;
    }
    default:
      return rank >= 2 ? transpose(x) : x;
  }
}

Tensor ExactGraphMaker::views(Tensor x) {
  for (int64_t left = below(4); left > 0; --left) x = view(x);
  return x;
}

Tensor ExactGraphMaker::pointwise() {
  const Tensor x = one_in(3) ? views(pick()) : pick();
  switch (below(11)) {
    case 0:
      return small(x + partner(x));
    case 1:
      return small(x - partner(x));
    case 2:
      return small(x * partner(x));
    case 3:
      return small(x * number(x) + number(x));
    case 4:
      return maximum(x, partner(x));
    case 5:
      return where(pick_condition(x.shape()), x, number(x));
    case 6:
      return where(pick_condition(x.shape()), x, partner(x));
    case 7:
      return -x;
    case 8:
      return cast(x, floating());
    case 9: {
      const Tensor y = partner(x);
      const Tensor condition = one_in(4)   ? less(x, y)
                               : one_in(3) ? less_equal(x, y)
                               : one_in(2) ? cast(x, DType::boolean)
                                           : equal(x, y);
      conditions_.push_back(condition);
      return one_in(2) ? cast(condition, floating()) : where(condition, y, number(y));
    }
    default:
      return small(cast(cast(x, DType::f32) * 2 + 1, floating()));
  }
}

Tensor ExactGraphMaker::reduction() {
  const Tensor x = one_in(2) ? views(pick()) : pick();
  const int rank = x.shape().rank();
  if (rank == 0) return -x;
  Dims axes;
  int64_t count = 1;
  for (int axis = 0; axis < rank; ++axis)
    if (one_in(2)) {
      axes.push_back(axis);
      count *= x.shape()[axis];
    }
  if (axes.rank() == 0) axes.push_back(rank - 1), count = x.shape().back();
  const Tensor wide = cast(x, DType::f32);
  switch (below(5)) {
    case 0:
      return small(sum(wide, axes));
    case 1:
      return one_in(3) ? small(sum(wide * wide, axes)) : max(x, axes);
    case 2:
      return (count & (count - 1)) == 0 ? small(mean(wide * static_cast<double>(count), axes))
                                        : small(cast(sum(x, axes), floating()));
    case 3: {  // over one axis after the other
      const Tensor inner = one_in(2) ? sum(wide, {-1}) : max(wide, {-1});
      return small(sum(wide + small(inner), axes));
    }
    default:
      return small(wide - small(sum(wide, axes)));
  }
}

Tensor ExactGraphMaker::product() {
  Tensor a = views(pick());
  const int64_t count = element_count(a.shape());
  if (a.shape().rank() < 2) a = reshape(a, one_in(2) ? Shape{1, count} : Shape{count, 1});
  const int64_t inner = a.shape().back();
  const DType dtype = a.dtype();
  Tensor b;
  switch (below(5)) {
    case 0:
      b = transpose(a);
      break;
    case 1: {  // a weight, as it lies or turned, whole or a part
      const int64_t columns = size();
      b = one_in(2) ? transpose(add_input(dtype, {columns, inner}, Role::parameter))
                    : add_input(dtype, {inner, columns});
      break;
    }
    case 2: {  // columns of a larger one
      const int64_t columns = size(), from = below(3);
      b = slice(add_input(dtype, {inner, columns + 3}), 1, from, from + columns);
      break;
    }
    case 3: {  // side by side
      const Tensor parts[] = {add_input(dtype, {size(), inner}), add_input(dtype, {size(), inner})};
      b = transpose(concat(parts, 0));
      break;
    }
    default: {  // several of them, of which a is one
      b = add_input(dtype, {1 + below(3), inner, size()});
      if (a.shape().rank() > 2 && a.shape().back(2) != 1 && b.shape()[0] != 1)
        a = slice(a, a.shape().rank() - 3, 0, 1);
      break;
    }
  }
  if (one_in(4)) a = where(pick_condition(a.shape()), a, scalar(a, 0));
  if (one_in(4)) b = cast(cast(b, DType::f32) * 2, dtype);
  if (element_count(a.shape()) / inner * b.shape().back() *
          (b.shape().rank() > 2 ? b.shape()[0] : 1) >
      most_elements_) {
    a = slice(a, a.shape().rank() - 2, 0, 1);
    for (int axis = 0; axis + 2 < a.shape().rank(); ++axis)
      if (b.shape().rank() == 2 || a.shape()[axis] > 1) a = slice(a, axis, 0, 1);
    if (b.shape().rank() > 2)
      for (int axis = 0; axis + 2 < b.shape().rank(); ++axis) b = slice(b, axis, 0, 1);
  }
  Tensor y = matmul(a, b);
  if (one_in(3)) {  // two weights that may be packed
    const int64_t columns = b.shape().back();
    const Tensor other = transpose(add_input(dtype, {columns, inner}, Role::parameter));
    y = one_in(2) ? y + matmul(a, other) : maximum(y, matmul(a, other));
  }
  // A product of 16 bits that only a cast reads is not rounded to them in between.
  if (one_in(3) && (inner <= 2 || dtype == DType::f32)) y = cast(y, DType::f32);
  if (one_in(3)) y = y + number(y);
  if (one_in(3)) y = maximum(y, scalar(y, 0));
  const int64_t squares = element_count(y.shape()) / y.shape().back(1) * y.shape().back();
  if (one_in(4) && squares <= most_elements_) y = matmul(small(transpose(y)), small(y));
  return cast(small(y), floating());
}

Tensor ExactGraphMaker::indices(int64_t count, int64_t limit) {
  const Tensor result = add_input(DType::i32, {count});
  const bool same = one_in(4), extreme = one_in(3);
  const int64_t all = below(limit);
  for (double& value : made_->inputs["in" + std::to_string(made_->inputs.size() - 1)])
    value = static_cast<double>(same ? all : extreme ? (one_in(2) ? 0 : limit - 1) : below(limit));
  if (!one_in(3) || count < 2) return result;
  // Read through a view: every other one of twice as many, or the same one again and again.
  const Tensor pairs = reshape(concat(std::vector{result, result}, 0), {2, count});
  return reshape(slice(one_in(2) ? transpose(pairs) : reshape(pairs, {count, 2}), 1, 0, 1),
                 {count});
}

Tensor ExactGraphMaker::indexed() {
  Tensor x = views(pick());
  const int64_t count = element_count(x.shape());
  if (x.shape().rank() != 2)
    x = x.shape().rank() < 2 ? reshape(x, {count, 1})
                             : reshape(x, {count / x.shape().back(), x.shape().back()});
  const int64_t rows = x.shape()[0], width = x.shape()[1];
  switch (below(5)) {
    case 0:
      return gather(x, indices(1 + below(9), rows));
    case 1: {
      const int64_t into = 1 + below(5);
      return small(scatter_add(indices(rows, into), cast(x, DType::f32), into));
    }
    case 2:
      return ridgeline::pick(x, indices(rows, width));
    case 3: {
      const int64_t into = 1 + below(5);
      return place(indices(rows, into), slice(x, 1, width - 1, width), into);
    }
    default: {
      const Tensor largest = argmax(x);
      conditions_.push_back(less(largest, reshape(iota(made_->graph, rows), largest.shape())));
      return one_in(2) || rows * rows > most_elements_ ? small(cast(largest, DType::f32))
                                                       : gather(transpose(x), largest);
    }
  }
}

Tensor ExactGraphMaker::assembled() {
  const Tensor x = views(pick());
  const int rank = x.shape().rank();
  if (rank == 0) return -x;
  const auto axis = static_cast<int>(below(rank));
  const int64_t size = x.shape()[axis];
  std::vector<Tensor> parts;
  switch (below(4)) {
    case 0:
      return pad(x, axis, below(3), size + 2 + below(3));
    case 1:  // turned
      parts = {-slice(x, axis, size / 2, size), slice(x, axis, 0, std::max<int64_t>(1, size / 2))};
      break;
    case 2:
      parts = {x, small(x + number(x)), x};
      break;
    default: {
      const Tensor zeros_before = pad(x, axis, size, 2 * size),
                   zeros_behind = pad(-x, axis, 0, 2 * size);
      return one_in(2) ? zeros_before + zeros_behind : zeros_behind - zeros_before;
    }
  }
  if (one_in(3)) parts.push_back(expand(number(x), x.shape()));
  if (element_count(x.shape()) > most_elements_ / 3) parts.resize(1);
  return concat(parts, axis);
}

// Rows that go into a cache, which later rows go into as well; what reads it in between.
Tensor ExactGraphMaker::cached() {
  if (!cache_) {
    const Tensor x = pick();
    const Shape shape = {1 + below(2), 1 + below(6), size()};
    cache_ = Tensor(made_->graph, made_->graph.input({"cache", Role::cache}, {x.dtype(), shape}));
    made_->inputs["cache"] = std::vector<double>(static_cast<size_t>(element_count(shape)), 3);
    position_ = Tensor(made_->graph,
                       made_->graph.input({"position", Role::step_scalars}, {DType::i32, {1}}));
    made_->inputs["position"] = {static_cast<double>(below(20))};
  }
  const Shape& whole = cache_.shape();
  const int64_t count = 1 + below(3), slots = whole.back(1);
  const Tensor rows =
      small(cast(add_input(floating(), {whole[0], count, whole.back()}), cache_.dtype()) +
            (one_in(2) ? cast(slice(cache_, 1, 0, 1), cache_.dtype()) : scalar(cache_, 1)));
  if (one_in(2)) pool_.push_back(cache_ * 2.0);
  const Tensor held = ring_positions(position_, count, slots);
  cache_ = append(cache_, rows, position_);
  const Tensor zero(made_->graph, made_->graph.constant(0, DType::i32));
  const Tensor is_held = reshape(less_equal(zero, held), {slots, 1});
  if (one_in(2)) position_ = advance(position_, count);
  return where(is_held, small(cache_ + 1), scalar(cache_, 0));
}

Tensor ExactGraphMaker::step() {
  switch (below(12)) {
    case 0:
    case 1:
    case 2:
      return reduction();
    case 3:
    case 4:
      return product();
    case 5:
      return indexed();
    case 6:
    case 7:
      return assembled();
    case 8:
      return cached();
    case 9:
      return views(pick());
    default:
      return pointwise();
  }
}

}  // namespace ridgeline::testing

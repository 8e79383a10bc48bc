#include "support/random_graph.h"

namespace ridgeline::testing {

RandomGraph RandomGraphMaker::make(int ops) {
  RandomGraph result;
  graph_ = &result.graph;
  pool_.clear();
  for (int i = 0; i < 3; ++i) add_input(result);
  // Half of the graphs update tensors on their way, and half of them have two stages.
  const int64_t update = below(2 * ops), second_stage = below(2 * ops), append = below(2 * ops);
  std::vector<std::pair<const char*, Tensor>> updated;
  const auto add = [&](std::vector<std::pair<const char*, Tensor>> more) {
    updated.insert(updated.end(), more.begin(), more.end());
  };
  for (int64_t i = 0; i < ops; ++i) {
    if (i == second_stage) result.graph.begin_stage("second");
    if (i == update) add(add_update(result));
    if (i == append) add(add_append(result));
    pool_.push_back(step());
  }
  // The last values are results; everything else is used by them, or dies unread.
  for (int i = 0; i < 3; ++i)
    result.graph.mark_output("out" + std::to_string(i), pick_from_end(i).value());
  for (const auto& [name, tensor] : updated) result.graph.mark_output(name, tensor.value());
  return result;
}

RandomGraph RandomGraphMaker::make_products(int products) {
  RandomGraph result;
  graph_ = &result.graph;
  pool_.clear();
  for (int i = 0; i < 2; ++i) add_input(result);
  for (int i = 0; i < products; ++i) {
    const Tensor x = pick_tensor();
    const Tensor rows = element_count(x.shape()) <= 3000 ? as_rows(x) : mean(as_rows(x), {0});
    pool_.push_back(product_pattern(tame(rows)));
    result.graph.mark_output("out" + std::to_string(i), pick_from_end(0).value());
  }
  return result;
}

int64_t RandomGraphMaker::below(int64_t bound) {
  return std::uniform_int_distribution<int64_t>(0, bound - 1)(random_);
}

Tensor RandomGraphMaker::pick_tensor() {
  return pool_[static_cast<size_t>(below(static_cast<int64_t>(pool_.size())))];
}

void RandomGraphMaker::add_input(RandomGraph& result) {
  Shape shape;
  const int64_t rank = 1 + below(4);
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 17, 33};
  for (int64_t axis = 0; axis < rank; ++axis)
    shape.push_back(kSizes[below(axis + 1 < rank ? 6 : 9)]);
  const std::string name = "in" + std::to_string(pool_.size());
  pool_.push_back(input(result.graph, name, {dtype_, shape}));
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& value : values)
    value = round_to(dtype_, std::normal_distribution<double>()(random_));
  result.inputs[name] = std::move(values);
}

std::vector<std::pair<const char*, Tensor>> RandomGraphMaker::add_update(RandomGraph& result) {
  const Tensor gradient = pick_tensor();
  const Shape& shape = gradient.shape();
  const auto made = [&](const char* name, DType dtype, const Shape& of, double (*f)(double)) {
    std::vector<double>& values = result.inputs[name];
    for (int64_t i = 0; i < element_count(of); ++i)
      values.push_back(round_to(dtype, f(std::normal_distribution<double>()(random_))));
    return input(result.graph, name, {dtype, of});
  };
  const auto same = [](double x) { return x; };
  const auto positive = [](double x) { return 0.1 + x * x; };
  const auto below_one = [](double x) { return 0.2 + 0.5 / (1 + x * x); };
  const AdamWTensors tensors{.parameter = made("parameter", dtype_, shape, same),
                             .gradient = gradient,
                             .first_moment = made("first_moment", DType::f32, shape, same),
                             .second_moment = made("second_moment", DType::f32, shape, positive)};
  const Tensor scalars = made("scalars", DType::f32, {kAdamWScalars}, below_one);
  const Tensor scale = below(2) == 0 ? made("scale", DType::f32, {1}, below_one) : Tensor();
  const AdamWSpec spec{.variant = below(2) == 0 ? AdamWVariant::cs336 : AdamWVariant::pytorch};
  const Tensor half = tensors.parameter * 0.5;
  const Tensor parts[] = {tensors.parameter, half};
  pool_.push_back(half);
  pool_.push_back(concat(parts, static_cast<int>(below(shape.rank()))));
  const AdamWTensors updated = adamw_update({&tensors, 1}, scalars, scale, spec)[0];
  return {{"updated", updated.parameter},
          {"first_moment", updated.first_moment},
          {"second_moment", updated.second_moment},
          {"then", sin(updated.parameter)}};
}

std::vector<std::pair<const char*, Tensor>> RandomGraphMaker::add_append(RandomGraph& result) {
  const Tensor x = pick_tensor();
  const Tensor rows = tame(x.shape().rank() >= 2 ? x : as_rows(x));
  const int64_t slots = 1 + below(5), count = rows.shape().back(1);
  Shape shape = rows.shape();
  shape.back(1) = slots;
  const Tensor cache(*graph_, graph_->input({"cache", Role::cache}, {dtype_, shape}));
  result.inputs["cache"] = std::vector<double>(static_cast<size_t>(element_count(shape)), 0.5);
  const Tensor position(*graph_,
                        graph_->input({"position", Role::step_scalars}, {DType::i32, {1}}));
  result.inputs["position"] = {static_cast<double>(below(20))};
  pool_.push_back(cache * 0.5);
  const Tensor at = cast(position, dtype_) * 0.25;
  const Tensor held = ring_positions(position, count, slots);
  const Tensor appended = append(cache, rows, position);
  const Tensor is_held = reshape(less_equal(scalar_i32(0), held), {slots, 1});
  if (!is_differentiable_) pool_.push_back(where(is_held, sin(appended), scalar(appended, 0)));
  const int64_t width = shape.back(), heads = element_count(shape) / (slots * width);
  if (!is_differentiable_ && width <= 256) {
    const Tensor held_rows = reshape(appended, {1, heads, slots, width});
    const AttentionSpec spec{.scale = 0.5, .mask = {.window = below(4)}};
    const Tensor seen = cached_attention(reshape(rows, {1, heads, count, width}), held_rows,
                                         held_rows, position, spec)
                            .output;
    pool_.push_back(reshape(seen, rows.shape()));
  }
  const Tensor after = advance(position, count);
  pool_.push_back(at);
  return {{"appended", appended}, {"held", held}, {"position", after}, {"at", sin(at)}};
}

Tensor RandomGraphMaker::partner(const Tensor& x) {
  const Tensor other = pick_tensor();
  for (int axis = 0; axis < std::min(x.shape().rank(), other.shape().rank()); ++axis) {
    const int64_t a = x.shape().back(axis), b = other.shape().back(axis);
    if (a != b && a != 1 && b != 1) return sum_like(x);
  }
  return element_count(broadcast_shapes(x.shape(), other.shape())) > 20000 ? sum_like(x) : other;
}

Tensor RandomGraphMaker::step() {
  const Tensor x = pick_tensor();
  const int rank = x.shape().rank();
  const auto axis = static_cast<int>(below(rank));
  const int64_t size = x.shape()[axis];
  switch (below(44)) {
    case 0:
      return -x;
    case 1:
      return exp(tame(x));
    case 2:
      return log(exp(tame(x)) + 0.5);
    case 3:
      return sqrt(exp(tame(x)));
    case 4:
      return rsqrt(exp(tame(x)));
    case 5:
      return sin(x);
    case 6:
      return cos(x);
    case 7:
      return sigmoid(x);
    case 8:
      return tanh(x);
    case 9:
      return x + partner(x);
    case 10:
      return x - partner(x);
    case 11:
      return tame(x) * partner(x);
    case 12:
      return x / (exp(tame(partner(x))) + 0.25);
    case 13:
      return maximum(x, partner(x));
    case 14:
      return where(less(x, scalar(x, 0.1)), x, sin(x));
    case 15:
      return where(less_equal(iota(*graph_, x.shape().back()), scalar_i32(below(x.shape().back()))),
                   x, scalar(x, -2));
    case 16:
      return softmax(x);
    case 17:
      return softmax_gradient(softmax(x), tame(x));
    case 18:
      return mean(x, {axis});
    case 19:
      return max(x, {axis});
    case 20:
      return sum(x, Dims{axis}) * (1.0 / static_cast<double>(size));
    case 21:
      return rank >= 2 ? matmul(tame(x), transpose(tame(x))) *
                             (1.0 / static_cast<double>(x.shape().back()))
                       : x * 0.5;
    case 22:
      return reshape(rank >= 2 ? transpose(x) : x, {element_count(x.shape())});
    case 23:
      return rank >= 2 ? transpose(x) : expand(x, {3, size});
    case 24:
      return size > 1 ? slice(x, axis, 1, size) : pad(x, axis, 1, 3);
    case 25:
      return rank >= 2 && x.shape().back() <= 256 ? fused_attention(tame(x)) : x * 0.25;
    case 26:
      return silu(x);
    case 27:
      return silu_gradient(x, cos(x));
    case 28:
      return log_softmax(tame(x));
    case 29:
      return log_softmax_gradient(log_softmax(x), tame(x));
    case 30:
      return gather(as_rows(x), indices(1 + below(9), as_rows(x).shape()[0]));
    case 31: {
      const Tensor rows = as_rows(x);
      const int64_t count = rows.shape()[0];
      return scatter_add(indices(count, count + 1), rows, count + 1) *
             (1.0 / static_cast<double>(count));
    }
    case 32:
      return pick(rank >= 2 ? x : as_rows(x), row_indices(x));
    case 33: {
      const Tensor values = max(x, {rank - 1});
      return place(indices(element_count(values.shape()), 5),
                   reshape(values, {element_count(values.shape())}), 5);
    }
    case 34: {
      const Tensor parts[] = {x, sin(x), x};
      return size <= 64 ? concat(parts, axis) : concat({parts, 1}, axis);
    }
    case 35: {
      const Tensor tensors[] = {tame(x), sin(transpose_any(x))};
      return cast(sum_of_squares(tensors) * (1.0 / static_cast<double>(element_count(x.shape()))),
                  dtype_);
    }
    case 36:
      return rank >= 2 && element_count(x.shape()) <= 3000 ? attention_pattern(tame(x)) : cos(x);
    case 37:
    case 38:
    case 39:
      return side_by_side(x, 3);
    case 40:
      return rank >= 2 ? product_pattern(tame(x)) : sin(x) * 0.5;
    case 41: {  // of an input: rounding moves no maximum there
      const Tensor rows = as_rows(pool_[static_cast<size_t>(below(3))]);
      return gather(transpose(rows), argmax(rows));
    }
    case 42:
      return gelu_tanh(x);
    default:
      return pad(x, axis, 2, size + 3);
  }
}

Tensor RandomGraphMaker::side_by_side(const Tensor& x, int depth) {
  const auto axis = static_cast<int>(below(x.shape().rank()));
  const int64_t size = x.shape()[axis];
  if (size == 1) return part_like(x, depth);
  const int64_t middle = 1 + below(size - 1);
  const Tensor parts[] = {part_like(slice(x, axis, 0, middle), depth),
                          part_like(slice(x, axis, middle, size), depth)};
  return concat(parts, axis);
}

Tensor RandomGraphMaker::part_like(const Tensor& x, int depth) {
  const Shape& shape = x.shape();
  const bool has_matrices = shape.rank() >= 2;
  const int64_t kind = depth == 0 ? 0 : below(has_matrices ? 10 : 6);
  switch (kind) {
    case 2:
      return below(2) == 0 ? x : softmax(x);
    case 3:
      return reshape(part_like(reshape(x, {element_count(shape)}), depth - 1), shape);
    case 4:
    case 5:
      return side_by_side(x, depth - 1);
    case 6:
      return transpose(part_like(transpose(x), depth - 1));
    case 7:  // which would have to be copied, if it were not written there
      return reshape(transpose(part_like(x, depth - 1)), shape);
    case 8:
      return transpose(side_by_side(transpose(x), depth - 1));
    case 9:
      return shape.back() <= 256 ? fused_attention(tame(x)) : cos(x);
    default:
      return sin(x * (0.5 + 0.01 * static_cast<double>(below(100))));
  }
}

Tensor RandomGraphMaker::product_pattern(const Tensor& x) {
  const int64_t columns = x.shape().back(1), width = x.shape().back();
  const double scale = 1.0 / static_cast<double>(width);
  Tensor y = matmul(x, transpose(sin(x)));
  if (below(2) == 0) y = y * scale;
  if (below(3) == 0) y = cast(y, DType::f32);
  const Tensor flat = cast(reshape(x, {element_count(x.shape())}), y.dtype());
  const Tensor wide = cast(cos(x), y.dtype());
  const Tensor other = matmul(wide, transpose(wide)) * scale;
  switch (below(5)) {
    case 0:
      y = y + other;
      break;
    case 1: {  // what is there only after both products
      const int64_t rows = element_count(other.shape()) / columns;
      y = y + reshape(gather(as_rows(other), indices(rows, rows)), y.shape());
      break;
    }
    case 2:
      y = softmax(y) + y;
      break;
    case 3:
      y = cos(transpose(y)) + y;
      break;
    default:
      break;
  }
  if (below(2) == 0) y = y + slice(flat, 0, 0, columns);
  if (below(3) == 0) y = y * 0.5;
  if (below(3) == 0) y = maximum(y, scalar(y, 0));
  if (below(3) == 0)
    y = y * 0.5 * (tanh((y + y * y * y * 0.044715) * std::sqrt(2 / std::acos(-1.0))) + 1);
  if (below(3) == 0) y = y - mean(y, {-1});
  return cast(tanh(y), dtype_);
}

Tensor RandomGraphMaker::attention_pattern(const Tensor& x) {
  Tensor scores = matmul(x, transpose(sin(x))) * 0.5;
  if (below(2) == 0) scores = tanh(scores) * 2;
  if (below(2) == 0) scores = scores + mean(x, {-1});
  if (below(2) == 0) scores = scores * sigmoid(transpose(max(x, {-1})));
  if (below(2) == 0) {
    const int64_t rows = x.shape().back(1);
    const Tensor at = iota(*graph_, rows);
    scores = where(less_equal(at, reshape(at, {rows, 1})), scores, scalar(scores, -2 * below(2)));
  }
  return matmul(softmax(scores), x);
}

Tensor RandomGraphMaker::fused_attention(const Tensor& x) {
  const int64_t rows = x.shape().back(1), width = x.shape().back(0);
  const int64_t count = element_count(x.shape()) / (rows * width);
  const int64_t heads = count % 2 == 0 ? 2 : count % 3 == 0 ? 3 : 1;
  const Tensor q = reshape(x, {count / heads, heads, rows, width}), k = sin(q);
  const AttentionSpec spec{.scale = 0.5, .mask = {.causal = below(2) == 0, .window = below(4)}};
  const AttentionResult result = attention(q, k, q, spec);
  switch (is_differentiable_ ? 2 : below(4)) {
    case 0: {
      const AttentionGradients gradients = attention_gradient(q, k, q, result, cos(q), spec);
      const Tensor parts[] = {gradients.d_q, gradients.d_k, gradients.d_v};
      const auto axis = static_cast<int>(below(4));
      return reshape(slice(concat(parts, axis), axis, 1, 1 + q.shape()[axis]), x.shape());
    }
    case 1: {
      const Tensor parts[] = {result.log_sum_exp, attention(k, q, q, spec).log_sum_exp};
      const Tensor taken = slice(concat(parts, 2), 2, 1, 1 + rows);
      return x * cast(sigmoid(reshape(taken, reduced(x.shape()))), dtype_);
    }
    default:
      return reshape(result.output, x.shape());
  }
}

Shape RandomGraphMaker::reduced(Shape shape) {
  shape.back() = 1;
  return shape;
}

Tensor RandomGraphMaker::indices(int64_t count, int64_t limit) {
  const Tensor positions = iota(*graph_, count);
  const Tensor last = scalar_i32(below(std::min(count, limit)));
  return where(less_equal(positions, last), positions, scalar_i32(below(limit)));
}

Tensor RandomGraphMaker::as_rows(const Tensor& x) {
  return reshape(x, {element_count(x.shape()) / x.shape().back(), x.shape().back()});
}

Tensor RandomGraphMaker::row_indices(const Tensor& x) {
  Shape rows(x.shape().span().first(static_cast<size_t>(x.shape().rank() - 1)));
  if (rows.rank() == 0) rows = {1};
  return reshape(indices(element_count(rows), x.shape().back()), rows);
}

Tensor RandomGraphMaker::scalar_i32(int64_t value) {
  return Tensor(*graph_, graph_->constant(static_cast<double>(value), DType::i32));
}
}  // namespace ridgeline::testing

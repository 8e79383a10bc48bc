#include "kernels/reference/elements.h"

#include <cmath>
#include <limits>

#include "base/larger.h"
#include "kernels/reference/definitions.h"

namespace ridgeline {
namespace {

using reference::coordinates;
using reference::flat_index;
using Rule = Bounded (*)(const ElementCall&, const ElementPlace&);

Bounded read(const ElementOperand& operand, const Dims& at) {
  return {operand.read(at), 0};
}

Bounded read_broadcast(const ElementOperand& operand, const Dims& at) {
  return read(operand, reference::broadcast_source(operand.shape, at));
}

int64_t index_at(const ElementOperand& indices, int64_t row) {
  return static_cast<int64_t>(indices.read({row}));
}

Bounded pointwise(const ElementCall& call, const ElementPlace& place) {
  std::vector<Bounded> operands;
  for (const ElementOperand& input : call.inputs)
    operands.push_back(read_broadcast(input, place.at));
  return apply(call.node.op, operands, place.dtype);
}

// Row ops, along the last axis.
template <class Use>
void for_row(const ElementOperand& operand, Dims at, Use use) {
  for (at.back() = 0; at.back() < operand.shape.back(); ++at.back()) use(at);
}

int64_t row_of(const ElementOperand& x, const Dims& at) {
  return flat_index(x.shape, at) / x.shape.back();
}

// The largest element of the row of `at`; total_weight is the row's sum of exp(x - largest).
Bounded largest_of_row(const ElementCall& call, const Dims& at) {
  const ElementOperand& x = call.inputs[0];
  return call.once(2 * row_of(x, at), [&] {
    double largest = -std::numeric_limits<double>::infinity();
    for_row(x, at, [&](const Dims& each) { largest = larger(largest, x.read(each)); });
    return Bounded{largest, 0};
  });
}

Bounded weight_of(const Bounded& x, const Bounded& largest) {
  return apply(Op::exp, {apply(Op::subtract, {x, largest})});
}

Bounded total_weight(const ElementCall& call, const Dims& at) {
  const ElementOperand& x = call.inputs[0];
  return call.once(2 * row_of(x, at) + 1, [&] {
    const Bounded largest = largest_of_row(call, at);
    BoundedSum total;
    for_row(x, at, [&](const Dims& each) { total.add(weight_of(read(x, each), largest)); });
    return total.total();
  });
}

Bounded softmax(const ElementCall& call, const ElementPlace& place) {
  const Bounded weight = weight_of(read(call.inputs[0], place.at), largest_of_row(call, place.at));
  return apply(Op::divide, {weight, total_weight(call, place.at)}, place.dtype);
}

Bounded log_softmax(const ElementCall& call, const ElementPlace& place) {
  const Bounded shifted =
      apply(Op::subtract, {read(call.inputs[0], place.at), largest_of_row(call, place.at)});
  return apply(Op::subtract, {shifted, apply(Op::log, {total_weight(call, place.at)})},
               place.dtype);
}

Bounded softmax_gradient(const ElementCall& call, const ElementPlace& place) {
  const ElementOperand &y = call.inputs[0], &d_y = call.inputs[1];
  const Bounded dot = call.once(row_of(y, place.at), [&] {
    BoundedSum sum;
    for_row(y, place.at, [&](const Dims& at) { sum.add({y.read(at) * d_y.read(at), 0}); });
    return sum.total();
  });
  return apply(Op::multiply, {read(y, place.at), apply(Op::subtract, {read(d_y, place.at), dot})},
               place.dtype);
}

Bounded log_softmax_gradient(const ElementCall& call, const ElementPlace& place) {
  const ElementOperand &y = call.inputs[0], &d_y = call.inputs[1];
  const Bounded total = call.once(row_of(d_y, place.at), [&] {
    BoundedSum sum;
    for_row(d_y, place.at, [&](const Dims& at) { sum.add(read(d_y, at)); });
    return sum.total();
  });
  const Bounded weighted = apply(Op::multiply, {apply(Op::exp, {read(y, place.at)}), total});
  return apply(Op::subtract, {read(d_y, place.at), weighted}, place.dtype);
}

// The elements that a reduction folds into one.
template <class Use>
void for_reduced(const ElementCall& call, const ElementPlace& place, Use use) {
  const Shape& shape = call.inputs[0].shape;
  Shape folded = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (call.node.outputs[0].shape[axis] == shape[axis]) folded[axis] = 1;
  for (int64_t flat = 0; flat < element_count(folded); ++flat) {
    Dims at = coordinates(folded, flat);
    for (int axis = 0; axis < shape.rank(); ++axis)
      at[axis] += folded[axis] == 1 ? place.at[axis] : 0;
    use(at);
  }
}

Bounded sum(const ElementCall& call, const ElementPlace& place) {
  BoundedSum total;
  for_reduced(call, place, [&](const Dims& at) { total.add(read(call.inputs[0], at)); });
  return stored(total.total(), place.dtype);
}

Bounded mean(const ElementCall& call, const ElementPlace& place) {
  BoundedSum total;
  for_reduced(call, place, [&](const Dims& at) { total.add(read(call.inputs[0], at)); });
  return apply(Op::divide, {total.total(), {static_cast<double>(total.count()), 0}}, place.dtype);
}

Bounded max(const ElementCall& call, const ElementPlace& place) {
  double largest = -std::numeric_limits<double>::infinity();
  for_reduced(call, place,
              [&](const Dims& at) { largest = larger(largest, call.inputs[0].read(at)); });
  return {largest, 0};
}

Bounded matmul(const ElementCall& call, const ElementPlace& place) {
  const ElementOperand &a = call.inputs[0], &b = call.inputs[1];
  const double operand = a.dtype == DType::tf32 ? 2 * info(a.dtype).epsilon : 0;
  BoundedSum total;
  Dims at_a = place.at, at_b = place.at;
  for (int64_t k = 0; k < a.shape.back(); ++k) {
    at_a.back(0) = k;
    at_b.back(1) = k;
    const double product = read_broadcast(a, at_a).value * read_broadcast(b, at_b).value;
    total.add({product, operand * std::abs(product)});
  }
  const int64_t cut_off = call.on_tensor_cores ? tensor_core_steps(a.dtype, a.shape.back()) : 0;
  return stored(total.total(cut_off), place.dtype);
}

Bounded gather(const ElementCall& call, const ElementPlace& place) {
  return read(call.inputs[0], {index_at(call.inputs[1], place.at[0]), place.at[1]});
}

Bounded scatter_add(const ElementCall& call, const ElementPlace& place) {
  BoundedSum total;
  for (int64_t row = 0; row < call.inputs[0].shape[0]; ++row)
    if (index_at(call.inputs[0], row) == place.at[0])
      total.add(read(call.inputs[1], {row, place.at[1]}));
  return total.count() == 0 ? Bounded{} : stored(total.total(), place.dtype);
}

Bounded pick(const ElementCall& call, const ElementPlace& place) {
  return read(call.inputs[0], {place.at[0], index_at(call.inputs[1], place.at[0])});
}

Bounded placed(const ElementCall& call, const ElementPlace& place) {
  const bool here = index_at(call.inputs[0], place.at[0]) == place.at[1];
  return here ? read(call.inputs[1], {place.at[0]}) : Bounded{};
}

Bounded sum_of_squares(const ElementCall& call, const ElementPlace& place) {
  BoundedSum total;
  for (const ElementOperand& tensor : call.inputs)
    for (Dims at = {0}; at[0] < tensor.shape[0]; ++at[0]) {
      const double value = tensor.read(at);
      total.add({value * value, 0});
    }
  return stored(total.total(), place.dtype);
}

Bounded loss_scale(const ElementCall& call, const ElementPlace& place) {
  std::vector<double> state;
  for (int64_t i = 0; i < kLossScaleState; ++i) state.push_back(call.inputs[0].read({i}));
  const auto& spec = std::get<LossScaleSpec>(call.node.attributes.detail);
  const double after = reference::after_step(std::move(state), call.inputs[1].read({0}),
                                             spec)[static_cast<size_t>(place.at[0])];
  return stored({after, 0}, place.dtype);
}

Bounded argmax(const ElementCall& call, const ElementPlace& place) {
  const ElementOperand& x = call.inputs[0];
  int64_t best = 0;
  for (int64_t i = 1; i < x.shape[1]; ++i) {
    const double value = x.read({place.at[0], i}), largest = x.read({place.at[0], best});
    if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = i;
  }
  return {static_cast<double>(best), 0};
}

int64_t rows_of(const ElementCall& call) {
  return std::get<RowCount>(call.node.attributes.detail).count;
}

Bounded ring_positions(const ElementCall& call, const ElementPlace& place) {
  const auto last = static_cast<int64_t>(call.inputs[0].read({0})) + rows_of(call) - 1;
  const int64_t slots = call.node.outputs[0].shape[0];
  return {static_cast<double>(reference::position_in_slot(last, place.at[0], slots)), 0};
}

Bounded append(const ElementCall& call, const ElementPlace& place) {
  const ElementOperand& rows = call.inputs[1];
  const int64_t count = rows.shape.back(1), slots = call.inputs[0].shape.back(1);
  const auto first = static_cast<int64_t>(call.inputs[2].read({0}));
  const int64_t row =
      reference::position_in_slot(first + count - 1, place.at.back(1), slots) - first;
  if (row < 0) return read(call.inputs[0], place.at);
  Dims from = place.at;
  from.back(1) = row;
  return read(rows, from);
}

Bounded reshape(const ElementCall& call, const ElementPlace& place) {
  const int64_t flat = flat_index(call.node.outputs[0].shape, place.at);
  return read(call.inputs[0], coordinates(call.inputs[0].shape, flat));
}

Bounded concat(const ElementCall& call, const ElementPlace& place) {
  const auto axis = static_cast<int>(std::get<Axes>(call.node.attributes.detail).axes[0]);
  Dims at = place.at;
  size_t part = 0;
  for (; at[axis] >= call.inputs[part].shape[axis]; ++part)
    at[axis] -= call.inputs[part].shape[axis];
  return read(call.inputs[part], at);
}

Bounded pad(const ElementCall& call, const ElementPlace& place) {
  const Range& range = std::get<Range>(call.node.attributes.detail);
  Dims at = place.at;
  if (at[range.axis] < range.begin || at[range.axis] >= range.end) return {};
  at[range.axis] -= range.begin;
  return read(call.inputs[0], at);
}

constexpr OpTable<Rule> kRules = {
    [](const PointwiseRow&) -> Rule { return pointwise; },
    {
        {Op::input, nullptr},
        {Op::constant, nullptr},
        {Op::iota,
         [](const ElementCall&, const ElementPlace& place) {
           return Bounded{static_cast<double>(place.at[0]), 0};
         }},
        {Op::softmax, softmax},
        {Op::softmax_gradient, softmax_gradient},
        {Op::log_softmax, log_softmax},
        {Op::log_softmax_gradient, log_softmax_gradient},
        {Op::sum, sum},
        {Op::mean, mean},
        {Op::max, max},
        {Op::matmul, matmul},
        {Op::attention, attention_element},
        {Op::attention_gradient, attention_gradient_element},
        {Op::gather, gather},
        {Op::scatter_add, scatter_add},
        {Op::pick, pick},
        {Op::place, placed},
        {Op::argmax, argmax},
        {Op::sum_of_squares, sum_of_squares},
        {Op::adamw_update, adamw_element},
        {Op::loss_scale_update, loss_scale},
        {Op::append, append},
        {Op::advance,
         [](const ElementCall& call, const ElementPlace&) {
           return Bounded{call.inputs[0].read({0}) + static_cast<double>(rows_of(call)), 0};
         }},
        {Op::ring_positions, ring_positions},
        {Op::reshape, reshape},
        {Op::permute, nullptr},  // views: no kernel runs
        {Op::expand, nullptr},
        {Op::slice, nullptr},
        {Op::concat, concat},
        {Op::pad, pad},
        {Op::all_reduce, nullptr},
        {Op::reduce_scatter, nullptr},
        {Op::all_gather, nullptr},
    },
};

}  // namespace

Bounded element(const ElementCall& call, const ElementPlace& place) {
  const Rule rule = kRules[call.node.op];
  if (rule == nullptr) return {0, std::numeric_limits<double>::infinity()};
  return rule(call, place);
}

ElementWork element_work(const ElementCall& call, size_t output) {
  if (info(call.node.op).kind == OpClass::attention) return attention_work(call);
  // Elements of a row share its sum.
  if (info(call.node.op).kind == OpClass::row)
    return {.amortised = 4, .single = 2 * call.inputs[0].shape.back()};
  const auto reads = [&]() -> int64_t {
    if (call.inputs.empty()) return 1;
    const Shape& shape = call.inputs[0].shape;
    switch (info(call.node.op).kind) {
      case OpClass::reduction:
        return element_count(shape) / element_count(call.node.outputs[output].shape);
      case OpClass::matmul:
        return 2 * shape.back();
      case OpClass::indexed:
        if (call.node.op == Op::argmax) return 2 * shape[1];
        return call.node.op == Op::scatter_add ? shape[0] : 2;
      case OpClass::multi_tensor: {
        if (call.node.op == Op::adamw_update) return adamw_reads(call, output);
        int64_t all = 0;
        for (const ElementOperand& input : call.inputs) all += element_count(input.shape);
        return all;
      }
      default:
        return static_cast<int64_t>(call.inputs.size());
    }
  }();
  return {reads, reads};
}

}  // namespace ridgeline

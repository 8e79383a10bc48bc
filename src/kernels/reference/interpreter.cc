#include "kernels/reference/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/float16.h"

namespace ridgeline {
namespace {

using Data = std::vector<double>;

struct Operand {
  const Shape& shape;
  const Data& data;
};

struct Call {
  const Node& node;
  std::vector<Operand> inputs;
  const Shape& shape;  // of the result
};

using Evaluate = Data (*)(const Call&);

// The coordinates of element `flat` of `shape`.
Dims coordinates(const Shape& shape, int64_t flat) {
  Dims at = Dims::filled(shape.rank(), 0);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return at;
}

int64_t flat_index(const Shape& shape, const Dims& at) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + at[axis];
  return flat;
}

// The element that broadcasting shows at coordinates `at` of a larger shape.
double broadcast_element(const Operand& operand, const Dims& at) {
  Dims mine = Dims::filled(operand.shape.rank(), 0);
  for (int axis = 0; axis < mine.rank(); ++axis)
    mine[axis] = operand.shape[axis] == 1 ? 0 : at[at.rank() - mine.rank() + axis];
  return operand.data[static_cast<size_t>(flat_index(operand.shape, mine))];
}

template <class ElementAt>
Data fill(const Shape& shape, ElementAt element_at) {
  Data result(static_cast<size_t>(element_count(shape)));
  for (int64_t flat = 0; flat < static_cast<int64_t>(result.size()); ++flat)
    result[static_cast<size_t>(flat)] = element_at(coordinates(shape, flat));
  return result;
}

template <double (*f)(double)>
Data unary(const Call& call) {
  Data result = call.inputs[0].data;
  for (double& value : result) value = f(value);
  return result;
}

template <double (*f)(double, double)>
Data binary(const Call& call) {
  return fill(call.shape, [&](const Dims& at) {
    return f(broadcast_element(call.inputs[0], at), broadcast_element(call.inputs[1], at));
  });
}

Data where(const Call& call) {
  return fill(call.shape, [&](const Dims& at) {
    const bool yes = broadcast_element(call.inputs[0], at) != 0;
    return broadcast_element(call.inputs[yes ? 1 : 2], at);
  });
}

template <class RowFunction>
Data by_rows(const Call& call, RowFunction row_function) {
  Data result(call.inputs[0].data.size());
  const auto width = static_cast<size_t>(call.shape.back());
  for (size_t begin = 0; begin < result.size(); begin += width) row_function(begin, width, result);
  return result;
}

Data softmax(const Call& call) {
  const Data& x = call.inputs[0].data;
  return by_rows(call, [&](size_t begin, size_t width, Data& result) {
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t i = begin; i < begin + width; ++i) largest = std::max(largest, x[i]);
    double total = 0;
    for (size_t i = begin; i < begin + width; ++i) total += result[i] = std::exp(x[i] - largest);
    for (size_t i = begin; i < begin + width; ++i) result[i] /= total;
  });
}

Data softmax_gradient(const Call& call) {
  const Data& y = call.inputs[0].data;
  const Data& d_y = call.inputs[1].data;
  return by_rows(call, [&](size_t begin, size_t width, Data& result) {
    double dot = 0;
    for (size_t i = begin; i < begin + width; ++i) dot += y[i] * d_y[i];
    for (size_t i = begin; i < begin + width; ++i) result[i] = y[i] * (d_y[i] - dot);
  });
}

Data reduce(const Call& call, double start, double (*combine)(double, double)) {
  Data result(static_cast<size_t>(element_count(call.shape)), start);
  const Operand& x = call.inputs[0];
  for (int64_t flat = 0; flat < static_cast<int64_t>(x.data.size()); ++flat) {
    Dims at = coordinates(x.shape, flat);
    for (int axis = 0; axis < at.rank(); ++axis)
      if (call.shape[axis] == 1) at[axis] = 0;
    double& sum = result[static_cast<size_t>(flat_index(call.shape, at))];
    sum = combine(sum, x.data[static_cast<size_t>(flat)]);
  }
  return result;
}

double plus(double a, double b) { return a + b; }
double larger(double a, double b) { return std::max(a, b); }

Data sum(const Call& call) { return reduce(call, 0, plus); }

Data mean(const Call& call) {
  Data result = sum(call);
  const double count = static_cast<double>(call.inputs[0].data.size()) / static_cast<double>(result.size());
  for (double& value : result) value /= count;
  return result;
}

Data max(const Call& call) {
  return reduce(call, -std::numeric_limits<double>::infinity(), larger);
}

Data matmul(const Call& call) {
  const int64_t depth = call.inputs[0].shape.back();
  return fill(call.shape, [&](const Dims& at) {
    double total = 0;
    Dims at_a = at;
    Dims at_b = at;
    for (int64_t k = 0; k < depth; ++k) {
      at_a.back(0) = k;
      at_b.back(1) = k;
      total += broadcast_element(call.inputs[0], at_a) * broadcast_element(call.inputs[1], at_b);
    }
    return total;
  });
}

Data same(const Call& call) { return call.inputs[0].data; }

Data permute(const Call& call) {
  const Dims& order = std::get<Axes>(call.node.attributes.detail).axes;
  return fill(call.shape, [&](const Dims& at) {
    Dims source = at;
    for (int axis = 0; axis < at.rank(); ++axis) source[static_cast<int>(order[axis])] = at[axis];
    return broadcast_element(call.inputs[0], source);
  });
}

Data expand(const Call& call) {
  return fill(call.shape, [&](const Dims& at) { return broadcast_element(call.inputs[0], at); });
}

Data slice(const Call& call) {
  const Range& range = std::get<Range>(call.node.attributes.detail);
  return fill(call.shape, [&](const Dims& at) {
    Dims source = at;
    source[range.axis] += range.begin;
    return call.inputs[0].data[static_cast<size_t>(flat_index(call.inputs[0].shape, source))];
  });
}

Data pad(const Call& call) {
  const Range& range = std::get<Range>(call.node.attributes.detail);
  return fill(call.shape, [&](const Dims& at) {
    if (at[range.axis] < range.begin || at[range.axis] >= range.end) return 0.0;
    Dims source = at;
    source[range.axis] -= range.begin;
    return call.inputs[0].data[static_cast<size_t>(flat_index(call.inputs[0].shape, source))];
  });
}

constexpr OpTable<Evaluate> kEvaluators = {
    {Op::input, nullptr},  // given by the caller
    {Op::constant, [](const Call& call) { return Data{std::get<Scalar>(call.node.attributes.detail).value}; }},
    {Op::iota,
     [](const Call& call) {
       return fill(call.shape, [](const Dims& at) { return static_cast<double>(at[0]); });
     }},
    {Op::negate, unary<[](double x) { return -x; }>},
    {Op::exp, unary<std::exp>},
    {Op::log, unary<std::log>},
    {Op::sqrt, unary<std::sqrt>},
    {Op::rsqrt, unary<[](double x) { return 1 / std::sqrt(x); }>},
    {Op::sin, unary<std::sin>},
    {Op::cos, unary<std::cos>},
    {Op::tanh, unary<std::tanh>},
    {Op::sigmoid, unary<[](double x) { return 1 / (1 + std::exp(-x)); }>},
    {Op::cast, same},
    {Op::add, binary<plus>},
    {Op::subtract, binary<[](double a, double b) { return a - b; }>},
    {Op::multiply, binary<[](double a, double b) { return a * b; }>},
    {Op::divide, binary<[](double a, double b) { return a / b; }>},
    {Op::maximum, binary<larger>},
    {Op::less, binary<[](double a, double b) { return a < b ? 1.0 : 0.0; }>},
    {Op::less_equal, binary<[](double a, double b) { return a <= b ? 1.0 : 0.0; }>},
    {Op::equal, binary<[](double a, double b) { return a == b ? 1.0 : 0.0; }>},
    {Op::where, where},
    {Op::softmax, softmax},
    {Op::softmax_gradient, softmax_gradient},
    {Op::sum, sum},
    {Op::mean, mean},
    {Op::max, max},
    {Op::matmul, matmul},
    {Op::reshape, same},
    {Op::permute, permute},
    {Op::expand, expand},
    {Op::slice, slice},
    {Op::pad, pad},
};

Data given(const Node& node, const InterpreterInputs& inputs) {
  const auto found = inputs.find(node.name);
  const auto expected = static_cast<size_t>(element_count(node.outputs[0].shape));
  if (found == inputs.end() || found->second.size() != expected)
    throw Error(ErrorKind::usage, fmt::format("the input '{}' of type {} was not given", node.name,
                                              to_string(node.outputs[0])));
  return found->second;
}

}  // namespace

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return bf16_to_float(float_to_bf16(static_cast<float>(value)));
    case DType::f16:
      return f16_to_float(float_to_f16(static_cast<float>(value)));
    case DType::i32:
      return std::trunc(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
  }
  return value;
}

std::vector<Data> interpret(const Graph& graph, const InterpreterInputs& inputs,
                            const InterpreterOptions& options) {
  std::vector<Data> values(graph.value_count());
  for (const Node& node : graph.nodes()) {
    Data& result = values[node.first_value];
    if (node.op == Op::input) {
      result = given(node, inputs);
    } else {
      Call call{node, {}, node.outputs[0].shape};
      for (Value input : node.inputs)
        call.inputs.push_back({graph.type(input).shape, values[graph.index(input)]});
      result = kEvaluators[node.op](call);
    }
    const DType dtype = node.outputs[0].dtype;
    const bool rounds = !is_floating(dtype) || options.round_to_dtype;
    for (double& value : result)
      if (rounds) value = round_to(dtype, value);
  }
  return values;
}

}  // namespace ridgeline

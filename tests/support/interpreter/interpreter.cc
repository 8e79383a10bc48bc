#include "support/interpreter/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/float16.h"
#include "base/larger.h"
#include "support/interpreter/evaluators.h"

namespace ridgeline {
namespace {

using namespace reference;

using Evaluate = Results (*)(const Call&);

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

Data log_softmax(const Call& call) {
  const Data& x = call.inputs[0].data;
  return by_rows(call, [&](size_t begin, size_t width, Data& result) {
    double largest = -std::numeric_limits<double>::infinity();
    for (size_t i = begin; i < begin + width; ++i) largest = std::max(largest, x[i]);
    double total = 0;
    for (size_t i = begin; i < begin + width; ++i) total += std::exp(x[i] - largest);
    for (size_t i = begin; i < begin + width; ++i) result[i] = x[i] - largest - std::log(total);
  });
}

Data log_softmax_gradient(const Call& call) {
  const Data& y = call.inputs[0].data;
  const Data& d_y = call.inputs[1].data;
  return by_rows(call, [&](size_t begin, size_t width, Data& result) {
    double total = 0;
    for (size_t i = begin; i < begin + width; ++i) total += d_y[i];
    for (size_t i = begin; i < begin + width; ++i) result[i] = d_y[i] - std::exp(y[i]) * total;
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

double plus(double a, double b) {
  return a + b;
}

Data sum(const Call& call) {
  return reduce(call, 0, plus);
}

Data mean(const Call& call) {
  Data result = sum(call);
  const double count =
      static_cast<double>(call.inputs[0].data.size()) / static_cast<double>(result.size());
  for (double& value : result) value /= count;
  return result;
}

Data max(const Call& call) {
  return reduce(call, -std::numeric_limits<double>::infinity(), larger<double>);
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

Data same(const Call& call) {
  return call.inputs[0].data;
}

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

Data concat(const Call& call) {
  const auto axis = static_cast<int>(std::get<Axes>(call.node.attributes.detail).axes[0]);
  return fill(call.shape, [&](const Dims& at) {
    Dims source = at;
    size_t part = 0;
    for (; source[axis] >= call.inputs[part].shape[axis]; ++part)
      source[axis] -= call.inputs[part].shape[axis];
    const Operand& from = call.inputs[part];
    return from.data[static_cast<size_t>(flat_index(from.shape, source))];
  });
}

Data iota(const Call& call) {
  return fill(call.shape, [](const Dims& at) { return static_cast<double>(at[0]); });
}

template <Data (*evaluate)(const Call&)>
Results one(const Call& call) {
  return {evaluate(call)};
}

constexpr OpTable<Evaluate> kEvaluators = {
    {Op::input, nullptr},  // given by the caller
    {Op::constant, one<[](const Call& call) {
       return Data{std::get<Scalar>(call.node.attributes.detail).value};
     }>},
    {Op::iota, one<iota>},
    {Op::negate, one<unary<[](double x) { return -x; }>>},
    {Op::exp, one<unary<std::exp>>},
    {Op::log, one<unary<std::log>>},
    {Op::sqrt, one<unary<std::sqrt>>},
    {Op::rsqrt, one<unary<[](double x) { return 1 / std::sqrt(x); }>>},
    {Op::sin, one<unary<std::sin>>},
    {Op::cos, one<unary<std::cos>>},
    {Op::tanh, one<unary<std::tanh>>},
    {Op::sigmoid, one<unary<[](double x) { return 1 / (1 + std::exp(-x)); }>>},
    {Op::silu, one<unary<[](double x) { return x / (1 + std::exp(-x)); }>>},
    {Op::gelu_tanh, one<unary<[](double x) {
       const double cubic = x + 0.044715 * x * x * x;
       return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * cubic));
     }>>},
    {Op::cast, one<same>},
    {Op::add, one<binary<plus>>},
    {Op::subtract, one<binary<[](double a, double b) { return a - b; }>>},
    {Op::multiply, one<binary<[](double a, double b) { return a * b; }>>},
    {Op::divide, one<binary<[](double a, double b) { return a / b; }>>},
    {Op::maximum, one<binary<larger<double>>>},
    {Op::less, one<binary<[](double a, double b) { return a < b ? 1.0 : 0.0; }>>},
    {Op::less_equal, one<binary<[](double a, double b) { return a <= b ? 1.0 : 0.0; }>>},
    {Op::equal, one<binary<[](double a, double b) { return a == b ? 1.0 : 0.0; }>>},
    {Op::where, one<where>},
    {Op::silu_gradient, one<binary<[](double x, double d_y) {
       const double s = 1 / (1 + std::exp(-x));
       return d_y * (s + x * s * (1 - s));
     }>>},
    {Op::softmax, one<softmax>},
    {Op::softmax_gradient, one<softmax_gradient>},
    {Op::log_softmax, one<log_softmax>},
    {Op::log_softmax_gradient, one<log_softmax_gradient>},
    {Op::sum, one<sum>},
    {Op::mean, one<mean>},
    {Op::max, one<max>},
    {Op::matmul, one<matmul>},
    {Op::attention, attention},
    {Op::attention_gradient, attention_gradient},
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
    {Op::reshape, one<same>},
    {Op::permute, one<permute>},
    {Op::expand, one<expand>},
    {Op::slice, one<slice>},
    {Op::pad, one<pad>},
    // in interpret_ranks(), which has all ranks
    {Op::all_reduce, nullptr},
    {Op::reduce_scatter, nullptr},
    {Op::all_gather, nullptr},
};

bool multiplies_matrices(Op op) {
  return op == Op::matmul || op == Op::attention || op == Op::attention_gradient;
}

Data tf32_operand(Data values) {
  for (double& value : values) value = float_to_tf32(static_cast<float>(value));
  return values;
}

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
    case DType::tf32:
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

namespace {

Results evaluate(const Graph& graph, const Node& node, const std::vector<Data>& values,
                 const InterpreterOptions& options) {
  Call call{node, {}, node.outputs[0].shape};
  std::vector<Data> rounded(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorType& type = graph.type(node.inputs[i]);
    const Data& data = values[graph.index(node.inputs[i])];
    const bool round =
        options.round_to_dtype && type.dtype == DType::tf32 && multiplies_matrices(node.op);
    if (round) rounded[i] = tf32_operand(data);
    call.inputs.push_back({type.shape, round ? rounded[i] : data});
  }
  return kEvaluators[node.op](call);
}

// The result of a collective on one rank; `operands` are those of all ranks.
Data collect(const Node& node, const std::vector<const Data*>& operands, size_t rank) {
  const auto size = static_cast<size_t>(element_count(node.outputs[0].shape));
  Data result(size, 0.0);
  if (node.op == Op::all_gather) {
    const size_t each = operands[0]->size();
    for (size_t i = 0; i < size; ++i) result[i] = (*operands[i / each])[i % each];
    return result;
  }
  const size_t begin = node.op == Op::reduce_scatter ? rank * size : 0;
  for (const Data* operand : operands)
    for (size_t i = 0; i < size && begin + i < operand->size(); ++i)
      result[i] += (*operand)[begin + i];
  return result;
}

}  // namespace

std::vector<std::vector<Data>> interpret_ranks(const Graph& graph,
                                               const std::vector<InterpreterInputs>& inputs,
                                               const InterpreterOptions& options) {
  std::vector<std::vector<Data>> values(inputs.size(), std::vector<Data>(graph.value_count()));
  for (const Node& node : graph.nodes()) {
    std::vector<const Data*> operands;
    if (is_collective(node.op)) {
      if (rank_count(node) != static_cast<int>(inputs.size()))
        throw Error(ErrorKind::usage,
                    fmt::format("{} has {} ranks, and the inputs of {} were given",
                                info(node.op).name, rank_count(node), inputs.size()));
      for (const std::vector<Data>& of_rank : values)
        operands.push_back(&of_rank[graph.index(node.inputs[0])]);
    }
    for (size_t rank = 0; rank < inputs.size(); ++rank) {
      Results results;
      if (node.op == Op::input)
        results = {given(node, inputs[rank])};
      else if (is_collective(node.op))
        results = {collect(node, operands, rank)};
      else
        results = evaluate(graph, node, values[rank], options);
      for (size_t output = 0; output < results.size(); ++output) {
        const DType dtype = node.outputs[output].dtype;
        if (!is_floating(dtype) || options.round_to_dtype)
          for (double& value : results[output]) value = round_to(dtype, value);
        values[rank][node.first_value + output] = std::move(results[output]);
      }
    }
  }
  return values;
}

std::vector<Data> interpret(const Graph& graph, const InterpreterInputs& inputs,
                            const InterpreterOptions& options) {
  return std::move(interpret_ranks(graph, {inputs}, options)[0]);
}

}  // namespace ridgeline

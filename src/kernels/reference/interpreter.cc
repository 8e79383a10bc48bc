#include "kernels/reference/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

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

using Results = std::vector<Data>;
using Evaluate = Results (*)(const Call&);

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

double plus(double a, double b) {
  return a + b;
}
double larger(double a, double b) {
  return std::max(a, b);
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

Data iota(const Call& call) {
  return fill(call.shape, [](const Dims& at) { return static_cast<double>(at[0]); });
}

// Attention by its definition, one query at a time. `use` gets the query's weights over the visible
// keys.
template <class Use>
void for_each_query(const Call& call, Use use) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const Shape& q = call.inputs[0].shape;
  const Shape& k = call.inputs[1].shape;
  for (int64_t head = 0; head < q[0] * q[1]; ++head) {
    const int64_t key_head = head / q[1] * k[1] + head % q[1] / (q[1] / k[1]);
    for (int64_t query = 0; query < q[2]; ++query) {
      const KeyRange range = visible_keys(spec.mask, query, q[2], k[2]);
      const double* q_row = &call.inputs[0].data[static_cast<size_t>((head * q[2] + query) * q[3])];
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t key = range.first; key < range.last; ++key) {
        const double* k_row =
            &call.inputs[1].data[static_cast<size_t>((key_head * k[2] + key) * q[3])];
        weights.push_back(spec.scale * std::inner_product(q_row, q_row + q[3], k_row, 0.0));
        largest = std::max(largest, weights.back());
      }
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (double& weight : weights) weight /= total;
      const double log_sum_exp = weights.empty() ? largest : largest + std::log(total);
      use(head * q[2] + query, key_head * k[2] + range.first, weights, log_sum_exp);
    }
  }
}

Results attention(const Call& call) {
  const auto width = static_cast<size_t>(call.shape[3]);
  const Data& v = call.inputs[2].data;
  Data output(call.inputs[0].data.size());
  Data log_sum_exps(output.size() / width);
  for_each_query(call, [&](int64_t query, int64_t first_key, const Data& weights,
                           double log_sum_exp) {
    const auto row = static_cast<size_t>(query);
    log_sum_exps[row] = log_sum_exp;
    for (size_t j = 0; j < weights.size(); ++j)
      for (size_t c = 0; c < width; ++c)
        output[row * width + c] += weights[j] * v[(static_cast<size_t>(first_key) + j) * width + c];
  });
  return {std::move(output), std::move(log_sum_exps)};
}

Results attention_gradient(const Call& call) {
  const auto width = static_cast<size_t>(call.shape[3]);
  const double scale = std::get<AttentionSpec>(call.node.attributes.detail).scale;
  const Data& q = call.inputs[0].data;
  const Data& k = call.inputs[1].data;
  const Data& v = call.inputs[2].data;
  const Data& d_output = call.inputs[5].data;
  Data d_q(q.size()), d_k(k.size()), d_v(v.size());
  for_each_query(call, [&](int64_t query, int64_t first_key, const Data& weights, double) {
    const size_t at_query = static_cast<size_t>(query) * width;
    const double* gradient = &d_output[at_query];
    std::vector<double> d_weights;
    double dot = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const double* v_row = &v[(static_cast<size_t>(first_key) + j) * width];
      d_weights.push_back(std::inner_product(gradient, gradient + width, v_row, 0.0));
      dot += weights[j] * d_weights[j];
    }
    for (size_t j = 0; j < weights.size(); ++j) {
      const size_t at_key = (static_cast<size_t>(first_key) + j) * width;
      const double d_score = weights[j] * (d_weights[j] - dot) * scale;
      for (size_t c = 0; c < width; ++c) {
        d_q[at_query + c] += d_score * k[at_key + c];
        d_k[at_key + c] += d_score * q[at_query + c];
        d_v[at_key + c] += weights[j] * gradient[c];
      }
    }
  });
  return {std::move(d_q), std::move(d_k), std::move(d_v)};
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
    {Op::cast, one<same>},
    {Op::add, one<binary<plus>>},
    {Op::subtract, one<binary<[](double a, double b) { return a - b; }>>},
    {Op::multiply, one<binary<[](double a, double b) { return a * b; }>>},
    {Op::divide, one<binary<[](double a, double b) { return a / b; }>>},
    {Op::maximum, one<binary<larger>>},
    {Op::less, one<binary<[](double a, double b) { return a < b ? 1.0 : 0.0; }>>},
    {Op::less_equal, one<binary<[](double a, double b) { return a <= b ? 1.0 : 0.0; }>>},
    {Op::equal, one<binary<[](double a, double b) { return a == b ? 1.0 : 0.0; }>>},
    {Op::where, one<where>},
    {Op::softmax, one<softmax>},
    {Op::softmax_gradient, one<softmax_gradient>},
    {Op::sum, one<sum>},
    {Op::mean, one<mean>},
    {Op::max, one<max>},
    {Op::matmul, one<matmul>},
    {Op::attention, attention},
    {Op::attention_gradient, attention_gradient},
    {Op::reshape, one<same>},
    {Op::permute, one<permute>},
    {Op::expand, one<expand>},
    {Op::slice, one<slice>},
    {Op::pad, one<pad>},
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

std::vector<Data> interpret(const Graph& graph, const InterpreterInputs& inputs,
                            const InterpreterOptions& options) {
  std::vector<Data> values(graph.value_count());
  for (const Node& node : graph.nodes()) {
    Results results;
    if (node.op == Op::input) {
      results = {given(node, inputs)};
    } else {
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
      results = kEvaluators[node.op](call);
    }
    for (size_t output = 0; output < results.size(); ++output) {
      const DType dtype = node.outputs[output].dtype;
      if (!is_floating(dtype) || options.round_to_dtype)
        for (double& value : results[output]) value = round_to(dtype, value);
      values[node.first_value + output] = std::move(results[output]);
    }
  }
  return values;
}

}  // namespace ridgeline

// Attention and its gradient by their definitions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/score_function.h"
#include "support/interpreter/evaluators.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::reference {
namespace {

const AttentionSpec& spec_of(const Call& call) {
  return std::get<AttentionSpec>(call.node.attributes.detail);
}

// The score function and its gradient at one score.
class Function {
 public:
  // The operands of f are the call's inputs from `first` on.
  Function(const Call& call, size_t first) : call_(call), first_(first) {}

  double value(double score, const Dims& at) const {
    const auto& function = spec_of(call_).function;
    if (function == nullptr) return score;
    return evaluate(function->value, score, at,
                    0)[function->value.index(function->value.outputs()[0].value)];
  }
  // Returns all values of the gradient graph, for d_result at coordinates `at`.
  std::vector<double> gradients(double score, const Dims& at, double d_result) const {
    return evaluate(spec_of(call_).function->gradient, score, at, d_result);
  }

 private:
  std::vector<double> evaluate(const Graph& graph, double score, const Dims& at,
                               double d_result) const {
    InterpreterInputs inputs;
    const std::vector<Value> names = graph.inputs();
    const std::vector<int>& positions = spec_of(call_).function->positions;
    const size_t operands = call_.inputs.size() - first_;
    const auto number = [&](size_t i) -> double {
      if (i == 0) return score;
      if (i <= operands) return broadcast_element(call_.inputs[first_ + i - 1], at);
      const size_t position = i - 1 - operands;
      return position < positions.size() ? static_cast<double>(at[positions[position]]) : d_result;
    };
    for (size_t i = 0; i < names.size(); ++i) inputs[graph.node(names[i]).name] = {number(i)};
    std::vector<double> numbers;
    for (const Data& data : interpret(graph, inputs)) numbers.push_back(data[0]);
    return numbers;
  }

  const Call& call_;
  size_t first_;
};

struct Query {
  int64_t row;           // among [B, H, Sq]
  int64_t first_key;     // the visible keys: rows of k, from here on
  Dims at;               // coordinates of the first score in [B, H, Sq, Sk]
  Data scores, weights;  // over the visible keys; scores before f
  double log_sum_exp;
};

// Calls `use` for one query after the other.
template <class Use>
void for_each_query(const Call& call, const Function& function, Use use) {
  const AttentionSpec& spec = spec_of(call);
  const Shape& q = call.inputs[0].shape;
  const Shape& k = call.inputs[1].shape;
  for (int64_t head = 0; head < q[0] * q[1]; ++head) {
    const int64_t key_head = head / q[1] * k[1] + head % q[1] / (q[1] / k[1]);
    for (int64_t number = 0; number < q[2]; ++number) {
      const KeyRange range = visible_keys(spec.mask, number, q[2], k[2]);
      Query query{.row = head * q[2] + number,
                  .first_key = key_head * k[2] + range.first,
                  .at = {head / q[1], head % q[1], number, range.first},
                  .scores = {},
                  .weights = {},
                  .log_sum_exp = -std::numeric_limits<double>::infinity()};
      const double* q_row = &call.inputs[0].data[static_cast<size_t>(query.row * q[3])];
      double largest = -std::numeric_limits<double>::infinity();
      Dims at = query.at;
      for (int64_t key = range.first; key < range.last; ++key, ++at[3]) {
        const double* k_row =
            &call.inputs[1].data[static_cast<size_t>((key_head * k[2] + key) * q[3])];
        query.scores.push_back(std::inner_product(q_row, q_row + q[3], k_row, 0.0));
        query.weights.push_back(spec.scale * function.value(query.scores.back(), at));
        largest = std::max(largest, query.weights.back());
      }
      double total = 0;
      // All scores may be -inf: then the weights are 0, as if no key were visible.
      for (double& weight : query.weights)
        total += weight =
            weight == -std::numeric_limits<double>::infinity() ? 0 : std::exp(weight - largest);
      for (double& weight : query.weights)
        if (total != 0) weight /= total;
      if (total != 0) query.log_sum_exp = largest + std::log(total);
      use(query);
    }
  }
}

}  // namespace

Results attention(const Call& call) {
  if (spec_of(call).cached) return cached_attention(call);
  const auto width = static_cast<size_t>(call.shape[3]);
  const Data& v = call.inputs[2].data;
  Data output(call.inputs[0].data.size());
  Data log_sum_exps(output.size() / width);
  for_each_query(call, Function(call, 3), [&](const Query& query) {
    const auto row = static_cast<size_t>(query.row);
    log_sum_exps[row] = query.log_sum_exp;
    for (size_t j = 0; j < query.weights.size(); ++j)
      for (size_t c = 0; c < width; ++c)
        output[row * width + c] +=
            query.weights[j] * v[(static_cast<size_t>(query.first_key) + j) * width + c];
  });
  return {std::move(output), std::move(log_sum_exps)};
}

Results attention_gradient(const Call& call) {
  const auto width = static_cast<size_t>(call.shape[3]);
  const AttentionSpec& spec = spec_of(call);
  const Data& q = call.inputs[0].data;
  const Data& k = call.inputs[1].data;
  const Data& v = call.inputs[2].data;
  const Data& d_output = call.inputs[5].data;
  Results results;
  for (const TensorType& type : call.node.outputs)
    results.emplace_back(static_cast<size_t>(element_count(type.shape)));
  Data &d_q = results[0], &d_k = results[1], &d_v = results[2];
  const Function function(call, 6);

  // Adds to the sums of every operand whose gradient is requested.
  const auto add_operands = [&](const std::vector<double>& gradients, const Dims& at) {
    size_t result = 3;
    for (size_t i = 6; i < call.inputs.size(); ++i) {
      const auto number = static_cast<int>(i - 6);
      if ((spec.operand_gradients >> number & 1) == 0) continue;
      const Shape& operand = call.inputs[i].shape;
      Dims to = at;
      for (int axis = 0; axis < 4; ++axis)
        if (operand[axis] == 1) to[axis] = axis < 2 ? 0 : at[axis] / kScoreTile;
      if ((spec.diagonal_gradients >> number & 1) != 0) {
        to[2] = 0;
        to[3] = at[3] - at[2] + operand[2] - 1;
      }
      const Value gradient = *operand_gradient(*spec.function, number);
      const Shape& sums = call.node.outputs[result].shape;
      results[result++][static_cast<size_t>(flat_index(sums, to))] +=
          gradients[spec.function->gradient.index(gradient)];
    }
  };

  for_each_query(call, function, [&](const Query& query) {
    const size_t at_query = static_cast<size_t>(query.row) * width;
    const double* gradient = &d_output[at_query];
    const Data& weights = query.weights;
    std::vector<double> d_weights;
    double dot = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      const double* v_row = &v[(static_cast<size_t>(query.first_key) + j) * width];
      d_weights.push_back(std::inner_product(gradient, gradient + width, v_row, 0.0));
      dot += weights[j] * d_weights[j];
    }
    Dims at = query.at;
    for (size_t j = 0; j < weights.size(); ++j, ++at[3]) {
      const size_t at_key = (static_cast<size_t>(query.first_key) + j) * width;
      double d_score = weights[j] * (d_weights[j] - dot) * spec.scale;
      if (spec.function != nullptr) {
        const std::vector<double> all = function.gradients(query.scores[j], at, d_score);
        d_score = all[spec.function->gradient.index(score_gradient(*spec.function))];
        add_operands(all, at);
      }
      for (size_t c = 0; c < width; ++c) {
        d_q[at_query + c] += d_score * k[at_key + c];
        d_k[at_key + c] += d_score * q[at_query + c];
        d_v[at_key + c] += weights[j] * gradient[c];
      }
    }
  });
  return results;
}

}  // namespace ridgeline::reference

// Compares what two graphs compute, by the fp64 interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/tensor.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::testing {

// Normal values for every floating input, indices below `index_bound` for integers.
inline InterpreterInputs random_inputs(const Graph& graph, uint64_t seed, int64_t index_bound = 1) {
  std::mt19937_64 random(seed);
  InterpreterInputs inputs;
  for (Value value : graph.inputs()) {
    const TensorType& type = graph.type(value);
    std::vector<double>& values = inputs[graph.node(value).name];
    for (int64_t i = 0; i < element_count(type.shape); ++i)
      values.push_back(is_floating(type.dtype)
                           ? round_to(type.dtype, std::normal_distribution<double>()(random))
                           : static_cast<double>(random() % static_cast<uint64_t>(index_bound)));
  }
  return inputs;
}

constexpr double kSmall = 1e-3;  // smaller results may be what is left when others cancel

// Outputs agree in order, name and, up to `tolerance` of the largest element, in every element.
inline void expect_same_values(const Graph& before, const Graph& after,
                               const InterpreterInputs& inputs, double tolerance,
                               InterpreterOptions options = {}) {
  const auto old_values = interpret(before, inputs, options);
  const auto new_values = interpret(after, inputs, options);
  ASSERT_EQ(before.outputs().size(), after.outputs().size());
  for (size_t i = 0; i < before.outputs().size(); ++i) {
    const Output& was = before.outputs()[i];
    const Output& is = after.outputs()[i];
    ASSERT_EQ(was.name, is.name);
    ASSERT_EQ(before.type(was.value).shape, after.type(is.value).shape) << was.name;
    const auto& expected = old_values[before.index(was.value)];
    const auto& got = new_values[after.index(is.value)];
    double size = 0;
    for (double value : expected)
      if (std::isfinite(value)) size = std::max(size, std::abs(value));
    for (size_t at = 0; at < expected.size(); ++at) {
      if (expected[at] == got[at] || (std::isnan(expected[at]) && std::isnan(got[at]))) continue;
      ASSERT_NEAR(expected[at], got[at], tolerance * std::max(size, kSmall))
          << was.name << " at " << at << "\nbefore:\n"
          << to_text(before) << "after:\n"
          << to_text(after);
    }
  }
}

inline int count_of(const Graph& graph, Op op) {
  int count = 0;
  for (const Node& node : graph.nodes()) count += node.op == op;
  return count;
}

// The value of the output `name`.
inline Value output_of(const Graph& graph, std::string_view name) {
  for (const Output& output : graph.outputs())
    if (output.name == name) return output.value;
  ADD_FAILURE() << "no output " << name;
  return {};
}

inline Tensor input_of(Graph& graph, std::string_view name) {
  for (Value value : graph.inputs())
    if (graph.node(value).name == name) return Tensor(graph, value);
  ADD_FAILURE() << "no input " << name;
  return {};
}

}  // namespace ridgeline::testing

#include "autodiff/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "autodiff/rules.h"
#include "base/error.h"
#include "support/interpreter/interpreter.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

// A function of up to three inputs; shapes and a shift of the inputs keep each op inside its
// domain.
struct OpCase {
  Op op;
  std::vector<Shape> shapes;
  std::function<Tensor(const std::vector<Tensor>&)> build;
  double shift = 0;
};

// 0, 1, 2, 1, 1, ...
Tensor some_indices(const Tensor& x, int64_t count) {
  const auto i32 = [&](double value) {
    return Tensor(x.graph(), x.graph().constant(value, DType::i32));
  };
  const Tensor positions = iota(x.graph(), count);
  return where(less_equal(positions, i32(2)), positions, i32(1));
}

const std::vector<OpCase>& cases() {
  using T = const std::vector<Tensor>&;
  static const std::vector<OpCase> kCases = {
      {Op::negate, {{3, 2}}, [](T x) { return -x[0]; }},
      {Op::exp, {{3, 2}}, [](T x) { return exp(x[0]); }},
      {Op::log, {{3, 2}}, [](T x) { return log(x[0]); }, 6},
      {Op::sqrt, {{3, 2}}, [](T x) { return sqrt(x[0]); }, 6},
      {Op::rsqrt, {{3, 2}}, [](T x) { return rsqrt(x[0]); }, 6},
      {Op::sin, {{3, 2}}, [](T x) { return sin(x[0]); }},
      {Op::cos, {{3, 2}}, [](T x) { return cos(x[0]); }},
      {Op::tanh, {{3, 2}}, [](T x) { return tanh(x[0]); }},
      {Op::sigmoid, {{3, 2}}, [](T x) { return sigmoid(x[0]); }},
      {Op::silu, {{3, 2}}, [](T x) { return silu(x[0]); }},
      {Op::gelu_tanh, {{3, 2}}, [](T x) { return gelu_tanh(x[0]); }},
      {Op::silu_gradient, {{3, 2}, {3, 2}}, [](T x) { return silu_gradient(x[0], x[1]); }},
      {Op::cast, {{3, 2}}, [](T x) { return cast(cast(x[0], DType::bf16) * 2.0, DType::f32); }},
      {Op::add, {{3, 2}, {2}}, [](T x) { return x[0] + x[1]; }},
      {Op::subtract, {{3, 1}, {2}}, [](T x) { return x[0] - x[1]; }},
      {Op::multiply, {{3, 2}, {3, 1}}, [](T x) { return x[0] * x[1]; }},
      {Op::divide, {{3, 2}, {2}}, [](T x) { return x[0] / x[1]; }, 6},
      {Op::maximum, {{3, 4}, {4}}, [](T x) { return maximum(x[0], x[1]); }},
      {Op::where,
       {{3, 4}, {4}, {3, 1}},
       [](T x) { return where(less(x[0], scalar(x[0], 0)), x[1] * x[0], x[2]); }},
      {Op::softmax, {{3, 5}}, [](T x) { return softmax(x[0]); }},
      {Op::softmax_gradient, {{3, 5}, {3, 5}}, [](T x) { return softmax_gradient(x[0], x[1]); }},
      {Op::log_softmax, {{3, 5}}, [](T x) { return log_softmax(x[0]); }},
      {Op::log_softmax_gradient,
       {{3, 5}, {3, 5}},
       [](T x) { return log_softmax_gradient(x[0], x[1]); }},
      {Op::gather, {{3, 2}}, [](T x) { return gather(x[0], some_indices(x[0], 5)); }},
      {Op::scatter_add, {{5, 2}}, [](T x) { return scatter_add(some_indices(x[0], 5), x[0], 4); }},
      {Op::pick, {{5, 3}}, [](T x) { return pick(x[0], some_indices(x[0], 5)); }},
      {Op::place, {{5}}, [](T x) { return place(some_indices(x[0], 5), x[0], 4); }},
      {Op::sum_of_squares, {{3, 2}, {4}}, [](T x) { return sum_of_squares(x); }},
      {Op::concat, {{3, 2}, {3, 1}}, [](T x) { return concat(x, 1) * concat(x, -1); }},
      {Op::sum,
       {{3, 2, 4}},
       [](T x) {
         return sum(x[0], {0, 2}) * sum(x[0], {1});
       }},
      {Op::mean,
       {{3, 2, 4}},
       [](T x) {
         return mean(x[0], {1, 2});
       }},
      {Op::max,
       {{3, 2, 4}},
       [](T x) {
         return max(x[0], {0, 2});
       }},
      {Op::matmul, {{2, 3, 4}, {4, 5}}, [](T x) { return matmul(x[0], x[1]); }},
      {Op::attention,
       {{1, 4, 3, 2}, {1, 2, 5, 2}, {1, 2, 5, 2}},
       [](T x) {
         return attention(x[0], x[1], x[2], {.scale = 0.7, .mask = {.causal = true, .window = 2}})
             .output;
       }},
      {Op::reshape,
       {{3, 4}},
       [](T x) {
         return reshape(transpose(x[0]), {2, 6});
       }},
      {Op::permute,
       {{2, 3, 4}},
       [](T x) {
         return permute(x[0], {1, 2, 0});
       }},
      {Op::expand,
       {{3, 1}},
       [](T x) {
         return expand(x[0], {2, 3, 4});
       }},
      {Op::slice, {{3, 5}}, [](T x) { return slice(x[0], 1, 1, 4); }},
      {Op::pad, {{3, 2}}, [](T x) { return pad(x[0], 1, 2, 5); }},
  };
  return kCases;
}

std::vector<double> random_values(const Shape& shape, std::mt19937_64& random, double shift) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  std::normal_distribution<double> normal;
  for (double& value : values) value = normal(random) + shift;
  return values;
}

// Compares every gradient of <output, weights> with central differences, all in fp64.
void check_against_differences(const OpCase& op_case, uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph graph;
  InterpreterInputs values;
  std::vector<Tensor> sources;
  for (const Shape& shape : op_case.shapes) {
    const std::string name = "x" + std::to_string(sources.size());
    sources.push_back(input(graph, name, {DType::f32, shape}));
    values[name] = random_values(shape, random, op_case.shift);
  }
  const Tensor output = op_case.build(sources);
  const Tensor weights = input(graph, "weights", output.type());
  values["weights"] = random_values(output.shape(), random, 0);
  const Cotangent cotangent{output, weights};
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
  verify(graph);

  const auto value_at = [&] {
    const std::vector<double> result = interpret(graph, values)[graph.index(output.value())];
    double total = 0;
    for (size_t i = 0; i < result.size(); ++i) total += result[i] * values["weights"][i];
    return total;
  };
  const auto analytic = interpret(graph, values);
  for (size_t source = 0; source < sources.size(); ++source) {
    ASSERT_EQ(gradients[source].type(), sources[source].type());
    std::vector<double>& x = values["x" + std::to_string(source)];
    for (size_t i = 0; i < x.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double before = x[i];
      x[i] = before + kStep;
      const double above = value_at();
      x[i] = before - kStep;
      const double below = value_at();
      x[i] = before;
      const double expected = (above - below) / (2 * kStep);
      const double got = analytic[graph.index(gradients[source].value())][i];
      EXPECT_NEAR(got, expected, 1e-7 * (1 + std::abs(expected)))
          << info(op_case.op).name << " input " << source << " element " << i;
    }
  }
}

TEST(Gradient, EveryRuleAgreesWithFiniteDifferences) {
  for (const OpCase& op_case : cases())
    for (uint64_t seed = 1; seed <= 3; ++seed) check_against_differences(op_case, seed);
}

TEST(Gradient, EveryOpWithARuleHasACase) {
  std::map<Op, bool> tested;
  for (const OpCase& op_case : cases()) tested[op_case.op] = true;
  for (size_t op = 0; op < kOpCount; ++op)
    EXPECT_EQ(gradient_rule(static_cast<Op>(op)) != nullptr, tested.contains(static_cast<Op>(op)))
        << info(static_cast<Op>(op)).name;
}

TEST(Gradient, EqualMaximaShareTheGradient) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  const Tensor y = max(x, {0});
  const Cotangent cotangent{y, expand(scalar(x, 1), {1})};
  const std::vector<Tensor> d = gradient({&cotangent, 1}, {&x, 1});
  EXPECT_EQ(interpret(graph, {{"x", {1, 3, 3, 0}}})[graph.index(d[0].value())],
            (std::vector<double>{0, 0.5, 0.5, 0}));
}

TEST(Gradient, OfAnUnrelatedSourceIsZero) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  const Tensor y = input(graph, "y", {DType::f32, {3}});
  const Cotangent cotangent{exp(x), x};
  const std::vector<Tensor> d = gradient({&cotangent, 1}, {&y, 1});
  EXPECT_EQ(interpret(graph, {{"x", {1, 2}}, {"y", {1, 2, 3}}})[graph.index(d[0].value())],
            (std::vector<double>{0, 0, 0}));
}

TEST(Gradient, OnlyPathsToTheSourcesAreDifferentiated) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3, 3}});
  const Tensor w = input(graph, "w", {DType::f32, {3, 3}});
  const Tensor y = matmul(x, w);
  const size_t before = graph.nodes().size();
  const Cotangent cotangent{y, x};
  gradient({&cotangent, 1}, {&w, 1});
  EXPECT_EQ(graph.nodes().size(), before + 2) << "one transpose and one product, nothing for x";
}

TEST(Gradient, AGradientOfAnotherTypeIsRefused) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2}});
  const Tensor g = input(graph, "g", {DType::f32, {3}});
  const Cotangent cotangent{exp(x), g};
  EXPECT_THROW(gradient({&cotangent, 1}, {&x, 1}), Error);
}

// Zeros would be wrong, and nobody would see it.
TEST(Gradient, WhatHasNoGradientIsRefusedUnlessNothingNeedsIt) {
  const auto gradient_of = [](auto part) {
    Graph graph;
    const Tensor x = input(graph, "x", {DType::f32, {1, 2, 4, 8}});
    const AttentionSpec spec{.scale = 0.5};
    const AttentionResult result = attention(x, x, x, spec);
    const Tensor y = part(x, result, attention_gradient(x, x, x, result, x, spec));
    const Cotangent cotangent{y, expand(scalar(y, 1), y.shape())};
    return gradient({&cotangent, 1}, {&x, 1});
  };
  using Result = const AttentionResult&;
  using Parts = const AttentionGradients&;
  EXPECT_THROW(gradient_of([](Tensor, Result r, Parts) { return exp(r.log_sum_exp); }), Error);
  EXPECT_THROW(gradient_of([](Tensor x, Result, Parts d) { return x * d.d_q; }), Error);
  EXPECT_THROW(gradient_of([](Tensor, Result, Parts d) { return sin(d.d_v); }), Error);
  EXPECT_NO_THROW(gradient_of([](Tensor, Result r, Parts) { return exp(r.output); }));
  EXPECT_NO_THROW(gradient_of([](Tensor x, Result, Parts d) {
    return where(less(d.d_q, scalar(x, 0)), x, scalar(x, 1));
  })) << "a comparison changes in steps";
}

// Whole random graphs: a directional derivative against a difference along the same direction.
TEST(Gradient, RandomGraphsAgreeWithDirectionalDifferences) {
  int smooth = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    testing::RandomGraph made = testing::RandomGraphMaker(seed).differentiable().make(12);
    Graph& graph = made.graph;
    std::vector<Tensor> sources;
    for (Value value : graph.inputs()) sources.emplace_back(graph, value);
    const Tensor output(graph, graph.outputs()[0].value);
    const Cotangent cotangent{output, expand(scalar(output, 1), output.shape())};
    const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
    verify(graph);

    std::mt19937_64 random(seed);
    InterpreterInputs direction;
    for (const auto& [name, values] : made.inputs) {
      direction[name].resize(values.size());
      for (double& value : direction[name]) value = std::normal_distribution<double>()(random);
    }
    const auto at = [&](double step) {
      InterpreterInputs moved = made.inputs;
      for (auto& [name, values] : moved)
        for (size_t i = 0; i < values.size(); ++i) values[i] += step * direction[name][i];
      const std::vector<double> result = interpret(graph, moved)[graph.index(output.value())];
      return std::accumulate(result.begin(), result.end(), 0.0);
    };
    const auto all = interpret(graph, made.inputs);
    double expected = 0;
    for (const Tensor& source : sources) {
      const auto& name = graph.node(source.value()).name;
      const auto& d =
          all[graph.index(gradients[static_cast<size_t>(&source - sources.data())].value())];
      for (size_t i = 0; i < direction[name].size(); ++i) expected += direction[name][i] * d[i];
    }
    const double fine = (at(1e-6) - at(-1e-6)) / 2e-6;
    const double coarse = (at(2e-6) - at(-2e-6)) / 4e-6;
    // max, where and maximum have kinks; a difference that crosses one says nothing.
    if (std::abs(fine - coarse) > 1e-5 * (1 + std::abs(fine))) continue;
    ++smooth;
    EXPECT_NEAR(expected, fine, 2e-5 * (1 + std::abs(fine))) << "seed " << seed << "\n"
                                                             << to_text(graph);
  }
  EXPECT_GT(smooth, 100);
}

}  // namespace
}  // namespace ridgeline

#include "passes/simplify.h"

#include <gtest/gtest.h>

#include <array>

#include "autodiff/gradient.h"
#include "passes/fold_constants.h"
#include "passes/rewrite.h"
#include "passes/same_values.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

using testing::expect_same_values;
using testing::random_inputs;

using T = const Tensor&;

struct Case {
  std::string_view rule;
  Tensor (*build)(T x);  // of x [2, 1, 3]
  std::vector<Op> left;  // what is left besides inputs and constants, in order
};

Tensor constant(T x, double value, const Shape& shape) {
  return expand(scalar(x, value), shape);
}

// One small graph for each rule, and traps in which it must not apply.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"constants are folded", [](T x) { return x + (scalar(x, 2) * 3 - 1.5); }, {Op::add}},
      {"constants are folded",
       [](T x) { return maximum(x, -(constant(x, 4, {3}) / constant(x, 8, {1}))); },
       {Op::maximum}},
      {"constants are folded", [](T x) { return x + exp(scalar(x, 2)); }, {Op::exp, Op::add}},
      {"x * 1 = x", [](T x) { return sin(x * 1.0); }, {Op::sin}},
      {"x * 1 = x", [](T x) { return sin(scalar(x, 1) * x); }, {Op::sin}},
      {"x * 1 = x",
       [](T x) {
         return sin(x * constant(x, 1, {4, 1, 1, 1}));
       },
       {Op::sin, Op::expand}},
      {"x + 0 = x", [](T x) { return sin(scalar(x, 0) + (x + 0.0)); }, {Op::sin}},
      {"x - 0 = x", [](T x) { return sin(x - 0.0); }, {Op::sin}},
      {"x - 0 = x", [](T x) { return scalar(x, 0) - x; }, {Op::subtract}},
      {"x / 1 = x", [](T x) { return sin(x / 1.0); }, {Op::sin}},
      {"x / 2^k = x * 2^-k", [](T x) { return x / 8.0 / -0.25; }, {Op::multiply}},
      {"x / 2^k = x * 2^-k", [](T x) { return x / 3.0; }, {Op::divide}},
      {"x / 2^k = x * 2^-k", [](T x) { return x / 0.0; }, {Op::divide}},
      {"(x * c) * d = x * (c d)",
       [](T x) { return scalar(x, 3) * (x * 0.3) * constant(x, 5, {3}); },
       {Op::multiply}},
      {"(x * c) * d = x * (c d)",
       [](T x) { return x * 1e30 * 1e30; },
       {Op::multiply, Op::multiply}},
      {"-(-x) = x", [](T x) { return sin(-(-x)); }, {Op::sin}},
      {"a + (-b) = a - b", [](T x) { return -x + sin(x); }, {Op::sin, Op::subtract}},
      {"a + (-b) = a - b", [](T x) { return sin(x) + -x; }, {Op::sin, Op::subtract}},
      {"a - (-b) = a + b", [](T x) { return sin(x) - -x; }, {Op::sin, Op::add}},
      {"a cast to the same dtype is dropped",
       [](T x) {
         Graph& graph = x.graph();
         return sin(Tensor(graph, graph.add(Op::cast, {x.value()}, {{}, Target{x.type()}})));
       },
       {Op::sin}},
      {"casts that lose nothing are merged",
       [](T x) {
         return cast(cast(cast(cast(x, DType::bf16), DType::f32), DType::bf16), DType::f32);
       },
       {Op::cast, Op::cast}},
      {"casts that lose nothing are merged",
       [](T x) { return cast(cast(less(x, scalar(x, 0)), DType::i32), DType::f32); },
       {Op::less, Op::cast}},
      {"casts that lose nothing are merged",
       [](T x) { return cast(cast(cast(x, DType::f16), DType::bf16), DType::f32); },
       {Op::cast, Op::cast, Op::cast}},
      {"casts come before reshape and permute",
       [](T x) {
         return cast(permute(reshape(sin(x), {3, 2}), {1, 0}), DType::bf16);
       },
       {Op::sin, Op::cast, Op::reshape, Op::permute}},
      {"casts come before reshape and permute",  // which would cast more than is read
       [](T x) { return cast(slice(sin(x), 2, 0, 1), DType::bf16); },
       {Op::sin, Op::slice, Op::cast}},
      {"casts come before concat",
       [](T x) {
         return cast(concat(std::array{sin(x), cast(cast(x, DType::bf16), DType::f32)}, 2),
                     DType::bf16);
       },
       {Op::sin, Op::cast, Op::cast, Op::concat}},
      {"zeros around parts that meet are a concat",
       [](T x) {
         const Tensor high = pad(cos(x), 2, 3, 6);
         return high + pad(sin(x), 2, 0, 6);
       },
       {Op::cos, Op::sin, Op::concat}},
      {"zeros around parts that meet are a concat",
       [](T x) {
         const Tensor low = pad(sin(x), 2, 1, 12);
         const Tensor middle = pad(cos(x), 2, 4, 12);
         return low + middle + pad(tanh(x), 2, 7, 12);
       },
       {Op::sin, Op::cos, Op::tanh, Op::concat, Op::pad}},
      {"zeros around parts that meet are a concat",  // a gap
       [](T x) {
         const Tensor low = pad(sin(x), 2, 0, 7);
         return low + pad(cos(x), 2, 4, 7);
       },
       {Op::sin, Op::pad, Op::cos, Op::pad, Op::add}},
      {"a constant condition chooses",
       [](T x) { return sin(where(less(scalar(x, 1), scalar(x, 2)), x, x * 3)); },
       {Op::sin}},
      {"a constant condition chooses",
       [](T x) {
         return sin(where(less(constant(x, 2, {4, 1, 1, 1}), scalar(x, 2)), x * 3, x));
       },
       {Op::sin, Op::expand}},
      {"equal branches need no condition",
       [](T x) { return sin(where(less(x, scalar(x, 2)), x, x)); },
       {Op::sin}},
      {"pointwise ops come before expand",
       [](T x) {
         return expand(sum(x, {2}), {2, 1, 3}) * x;
       },
       {Op::sum, Op::multiply}},
      {"pointwise ops come before expand",
       [](T x) {
         return sin(expand(x, {2, 5, 3}));
       },
       {Op::sin, Op::expand}},
      {"a reshape, expand, slice or pad to the same shape is dropped",
       [](T x) { return sin(slice(x, 2, 0, 3)); },
       {Op::sin}},
      {"a reshape, expand, slice or pad to the same shape is dropped",
       [](T x) { return sin(pad(x, 2, 0, 3)); },
       {Op::sin}},
      {"a permute that moves no element is a reshape",
       [](T x) {
         return sin(permute(x, {1, 0, 2}));
       },
       {Op::reshape, Op::sin}},
      {"a permute that moves no element is a reshape",
       [](T x) {
         return sin(permute(x, {0, 1, 2}));
       },
       {Op::sin}},
      {"reshapes are merged",
       [](T x) {
         return sin(reshape(reshape(x, {6}), {3, 2}));
       },
       {Op::reshape, Op::sin}},
      {"reshapes are merged",
       [](T x) {
         return sin(reshape(reshape(x, {6}), {2, 1, 3}));
       },
       {Op::sin}},
      {"reshapes are merged",  // the inner one copies
       [](T x) {
         return reshape(reshape(permute(x, {2, 1, 0}), {6}), {2, 3});
       },
       {Op::permute, Op::reshape, Op::reshape}},
      {"permutes are merged",
       [](T x) {
         return permute(permute(x, {2, 1, 0}), {1, 0, 2});
       },
       {Op::permute}},
      {"permutes are merged",
       [](T x) {
         return sin(transpose(transpose(expand(x, {2, 5, 3}))));
       },
       {Op::sin, Op::expand}},
      {"expands are merged",
       [](T x) {
         return expand(expand(x, {2, 5, 3}), {7, 2, 5, 3});
       },
       {Op::expand}},
      {"a view of a constant is an expand",
       [](T x) {
         return slice(permute(reshape(constant(x, 2, {6}), {2, 3}), {1, 0}), 0, 1, 2);
       },
       {Op::expand}},
      {"slices are merged", [](T x) { return slice(slice(x, 2, 1, 3), 2, 1, 2); }, {Op::slice}},
      {"slices are merged",
       [](T x) { return slice(slice(x, 2, 1, 3), 0, 1, 2); },
       {Op::slice, Op::slice}},
      {"a slice of a pad is one of the input",
       [](T x) { return sin(slice(pad(x, 2, 2, 9), 2, 2, 5)); },
       {Op::sin}},
      {"a slice of a pad is one of the input",
       [](T x) { return slice(pad(x, 2, 2, 9), 2, 1, 5); },
       {Op::pad, Op::slice}},
      {"a slice of a concat is one of a part",
       [](T x) {
         return slice(concat(std::array{sin(x), cos(x)}, 2), 2, 3, 5);
       },
       {Op::cos, Op::slice}},
      {"a slice of a concat is one of a part",
       [](T x) {
         return slice(concat(std::array{sin(x), cos(x)}, 2), 2, 2, 5);
       },
       {Op::sin, Op::cos, Op::concat, Op::slice}},
      {"a concat of one is dropped", [](T x) { return sin(concat(std::array{x}, 2)); }, {Op::sin}},
      {"axes of size 1 are not reduced", [](T x) { return sin(max(x, {1})); }, {Op::sin}},
      {"axes of size 1 are not reduced",
       [](T x) {
         return mean(x, {1, 2});
       },
       {Op::mean}},
      {"axes of size 1 are not reduced",
       [](T x) {
         return sum(x, {0, 2});
       },
       {Op::sum}},
  };
  return kCases;
}

Graph graph_of(const Case& each) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 1, 3}});
  graph.mark_output("y", each.build(x).value());
  return graph;
}

TEST(Simplify, LeavesTheExpectedNodes) {
  for (const Case& each : cases()) {
    const Graph graph = graph_of(each);
    const Graph after = simplify(graph);
    std::vector<Op> left;
    for (const Node& node : after.nodes())
      if (info(node.op).kind != OpClass::leaf) left.push_back(node.op);
    EXPECT_EQ(left, each.left) << each.rule << "\n"
                               << to_text(graph) << "became\n"
                               << to_text(after);
    expect_same_values(graph, after, random_inputs(graph, 9), 1e-7);
  }
}

TEST(Simplify, EveryRuleHasACaseInWhichItIsApplied) {
  SimplifyReport report;
  for (const Case& each : cases()) simplify(graph_of(each), &report);
  for (std::string_view rule : simplify_rules()) EXPECT_GT(report[rule], 0) << rule;
}

TEST(Simplify, NothingIsLeftToSimplify) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(30);
    SimplifyReport again;
    const Graph once = simplify(random.graph);
    const Graph twice = simplify(once, &again);
    EXPECT_TRUE(again.empty()) << again.begin()->first << "\n" << to_text(once);
    EXPECT_EQ(to_text(once), to_text(twice));
  }
}

TEST(Simplify, RandomGraphsComputeTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(30);
    const Graph after = simplify(random.graph);
    EXPECT_LE(after.nodes().size(), random.graph.nodes().size());
    expect_same_values(random.graph, after, random.inputs, 1e-7);
  }
}

TEST(Simplify, RandomGradientsComputeTheSame) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    testing::RandomGraph random = testing::RandomGraphMaker(seed).differentiable().make(12);
    Graph& graph = random.graph;
    const Tensor y(graph, graph.outputs()[0].value);
    if (!is_floating(y.dtype())) continue;
    const Cotangent cotangent{y, expand(scalar(y, 1), y.shape())};
    const Tensor x(graph, graph.inputs()[0]);
    graph.mark_output("d_x", gradient({&cotangent, 1}, {&x, 1})[0].value());
    expect_same_values(graph, simplify(graph), random.inputs, 1e-6);
  }
}

// What is folded has the bits of the kernels, which compute in fp32 and round to the dtype.
TEST(Simplify, FoldedConstantsHaveTheBitsOfAComputation) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> any(-20, 20);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (int trial = 0; trial < 200; ++trial) {
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, {1}});
      const auto drawn = [&] { return scalar(x, any(random)); };
      const std::array made = {drawn() + drawn(),
                               drawn() - drawn(),
                               drawn() * drawn(),
                               drawn() / drawn(),
                               maximum(drawn(), drawn()),
                               sqrt(drawn() * drawn()),
                               where(less(drawn(), drawn()), drawn(), -drawn())};
      for (size_t i = 0; i < made.size(); ++i)
        graph.mark_output(std::to_string(i), expand(made[i], {2}).value());
      const Graph after = simplify(graph);
      for (const Output& output : after.outputs())
        EXPECT_EQ(after.node(after.node(output.value).inputs[0]).op == Op::constant,
                  std::isfinite(interpret(
                      graph, {{"x", {0}}})[graph.index(testing::output_of(graph, output.name))][0]))
            << to_text(after);
      expect_same_values(graph, after, {{"x", {0}}}, 0, {.round_to_dtype = true});
    }
  }
}

TEST(Simplify, IntegersThatFp32CannotHoldAreNotFolded) {
  Graph graph;
  const auto number = [&](double value) {
    return Tensor(graph, graph.constant(value, DType::i32));
  };
  graph.mark_output("small", less(number(3), number(4)).value());
  graph.mark_output("large", less(number(16777216), number(16777217)).value());
  const Graph after = simplify(graph);
  EXPECT_EQ(after.node(testing::output_of(after, "small")).op, Op::constant);
  EXPECT_EQ(after.node(testing::output_of(after, "large")).op, Op::less);
}

}  // namespace
}  // namespace ridgeline

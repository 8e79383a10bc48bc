#include "passes/pack.h"

#include <gtest/gtest.h>

#include "autodiff/gradient.h"
#include "passes/same_values.h"
#include "passes/simplify.h"

namespace ridgeline {
namespace {

using testing::count_of;
using testing::input_of;
using testing::output_of;
using testing::random_inputs;

// Three projections of x, one of which is used twice, and one of another tensor.
Graph projections(DType products) {
  Graph graph;
  const auto weight = [&](const char* name, int64_t rows) {
    return parameter(graph, name, {DType::f32, {rows, 5}});
  };
  const Tensor x = input(graph, "x", {DType::f32, {4, 5}});
  const auto project = [&](const Tensor& from, const Tensor& w) {
    return cast(matmul(cast(from, products), transpose(cast(w, products))), DType::f32);
  };
  const Tensor q = project(x, weight("q", 2)), k = project(x, weight("k", 3)),
               v = project(x, weight("v", 3));
  const Tensor shared = weight("shared", 5);
  const Tensor twice = project(x, shared) + project(sin(x), shared);
  graph.mark_output("y", (sum(q, {1}) * sum(k * v, {1}) + sum(twice, {1})).value());
  return graph;
}

// Values of the packed inputs, from those of their parts.
InterpreterInputs packed_inputs(const Graph& packed, const InterpreterInputs& inputs) {
  InterpreterInputs result;
  for (Value value : packed.inputs()) {
    const InputInfo& input = packed.input_info(value);
    if (input.parts.empty()) result[input.name] = inputs.at(input.name);
    for (const auto& [part, rows] : input.parts)
      result[input.name].insert(result[input.name].end(), inputs.at(part).begin(),
                                inputs.at(part).end());
  }
  return result;
}

TEST(Pack, ProductsOfOneTensorBecomeOne) {
  for (DType products : {DType::f32, DType::bf16}) {
    const Graph graph = projections(products);
    const Graph packed = pack(graph);
    EXPECT_EQ(count_of(graph, Op::matmul), 5);
    EXPECT_EQ(count_of(packed, Op::matmul), 3) << to_text(packed);
    std::vector<std::string> names;
    for (Value value : packed.inputs()) names.push_back(packed.name(value));
    EXPECT_EQ(names, (std::vector<std::string>{"x", "q+k+v", "shared"}));
    const InterpreterInputs inputs = random_inputs(graph, 3);
    const auto before = interpret(graph, inputs);
    const auto after = interpret(packed, packed_inputs(packed, inputs));
    const auto& expected = before[graph.index(output_of(graph, "y"))];
    const auto& got = after[packed.index(output_of(packed, "y"))];
    ASSERT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(expected[i], got[i], 1e-12);
  }
}

// What makes it worth while: gradients of the weights and of x are single products too.
TEST(Pack, GradientsAreSingleProducts) {
  Graph graph = pack(projections(DType::f32));
  const Tensor y(graph, output_of(graph, "y"));
  const Cotangent cotangent{y, expand(scalar(y, 1), y.shape())};
  const Tensor wanted[] = {input_of(graph, "x"), input_of(graph, "q+k+v")};
  const auto gradients = gradient({&cotangent, 1}, wanted);
  graph.mark_output("dx", gradients[0].value());
  graph.mark_output("dw", gradients[1].value());
  // Forward 3; the gradients of x behind q, k, v and behind `shared`, where both are one; of q, k,
  // v.
  EXPECT_EQ(count_of(simplify(graph), Op::matmul), 3 + 2 + 1) << to_text(simplify(graph));
  EXPECT_EQ(count_of(simplify(graph), Op::pad), 0);
}

// Weights in fp32 that are cast to bf16, beside weights in bf16: a pack holds one dtype.
TEST(Pack, WeightsOfTwoDtypesBecomeTwoPacks) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {4, 5}});
  std::vector<Tensor> products;
  for (const auto& [name, dtype] :
       {std::pair{"a", DType::f32}, {"b", DType::bf16}, {"c", DType::f32}, {"d", DType::bf16}}) {
    const Tensor weight = parameter(graph, name, {dtype, {2, 5}});
    products.push_back(matmul(x, transpose(cast(weight, DType::bf16))));
  }
  graph.mark_output("y", (products[0] * products[1] + products[2] * products[3]).value());
  Graph packed = pack(graph);
  EXPECT_EQ(count_of(packed, Op::matmul), 2) << to_text(packed);
  EXPECT_EQ(input_of(packed, "a+c").dtype(), DType::f32);
  EXPECT_EQ(input_of(packed, "b+d").dtype(), DType::bf16);
}

TEST(Pack, LeavesAloneWhatIsReadOtherwise) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 5}});
  const Tensor a = parameter(graph, "a", {DType::f32, {2, 5}}),
               b = parameter(graph, "b", {DType::f32, {2, 5}});
  graph.mark_output("y", (matmul(x, transpose(a)) + matmul(x, transpose(b))).value());
  graph.mark_output("norm", sum(b * b, {0, 1}).value());
  EXPECT_EQ(to_text(pack(graph)), to_text(graph));
}

// A caller who brings data binds it by its own name.
TEST(Pack, LeavesDataAlone) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 5}});
  const Tensor a = input(graph, "a", {DType::f32, {2, 5}}),
               b = input(graph, "b", {DType::f32, {2, 5}});
  graph.mark_output("y", (matmul(x, transpose(a)) + matmul(x, transpose(b))).value());
  EXPECT_EQ(to_text(pack(graph)), to_text(graph));
}

// Names are for people: a parameter may be called anything.
TEST(Pack, PartsAreToldByTheGraphAndNotByNames) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 5}});
  const Tensor a = parameter(graph, "m.a+b", {DType::f32, {2, 5}}),
               b = parameter(graph, "16bit.c", {DType::f32, {3, 5}});
  const Tensor by_a = matmul(x, transpose(a)), by_b = matmul(x, transpose(b));
  graph.mark_output("y", (sum(by_a, {1}) * sum(by_b, {1})).value());
  const Graph packed = pack(graph);
  const InputInfo& input = packed.input_info(packed.inputs()[1]);
  EXPECT_EQ(input.role, Role::parameter);
  ASSERT_EQ(input.parts.size(), 2u);
  EXPECT_EQ(input.parts[0].parameter, "m.a+b");
  EXPECT_EQ(input.parts[0].rows, 2);
  EXPECT_EQ(input.parts[1].parameter, "16bit.c");
  EXPECT_EQ(input.parts[1].rows, 3);
}

}  // namespace
}  // namespace ridgeline

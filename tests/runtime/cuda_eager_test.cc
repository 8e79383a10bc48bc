// Every op on the GPU against the fp64 interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/larger.h"
#include "support/gpu.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline::cuda_eager_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As for the CPU: the interpreter rounds where kernels store, and each further op may double what
// remains of a few units in the last place.
double tolerance(DType dtype, double reference) {
  const double unit = dtype == DType::f32 ? 4e-5 : 12 * info(dtype).epsilon;
  return unit * (1 + std::abs(reference));
}

// `slack` widens the tolerance of one op: units of the dtype's epsilon, relative and absolute.
void expect_agreement(const Graph& graph, const InterpreterInputs& inputs, DType dtype,
                      CudaDevice& device, const std::string& what, double slack = 0) {
  const auto expected = interpret(graph, inputs, {.round_to_dtype = true});
  const auto got = testing::run_eager(graph, inputs, device);
  for (const Output& output : graph.outputs()) {
    const auto& reference = expected[graph.index(output.value)];
    const auto& values = got.at(output.name);
    ASSERT_EQ(values.size(), reference.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(reference[i])) {
        ASSERT_TRUE(std::isnan(values[i])) << what << ": " << output.name << "[" << i << "]";
        continue;
      }
      if (values[i] == reference[i]) continue;  // infinities too
      const double allowed = slack > 0 ? slack * info(dtype).epsilon * (1 + std::abs(reference[i]))
                                       : tolerance(dtype, reference[i]);
      ASSERT_NEAR(values[i], reference[i], allowed)
          << what << ": " << output.name << "[" << i << "]\n"
          << to_text(graph);
    }
  }
}

std::vector<double> normals(DType dtype, const Shape& shape, uint64_t seed, double scale = 1) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (double& value : values)
    value = round_to(dtype, scale * std::normal_distribution<double>()(random));
  return values;
}

TEST(CudaEager, RandomGraphsInFp32) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
    expect_agreement(made.graph, made.inputs, DType::f32, device, std::to_string(seed));
  }
}

// Short graphs: a flipped rounding in 16 bits grows with every further op.
TEST(CudaEager, RandomGraphsIn16Bits) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (DType dtype : {DType::bf16, DType::f16})
    for (uint64_t seed = 1000; seed < 1100; ++seed) {
      const testing::RandomGraph made = testing::RandomGraphMaker(seed, dtype).make(2);
      expect_agreement(made.graph, made.inputs, dtype, device, std::to_string(seed));
    }
}

TEST(CudaEager, ResultsAreEqualFromRunToRun) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
    EXPECT_EQ(testing::run_eager(made.graph, made.inputs, device),
              testing::run_eager(made.graph, made.inputs, device));
  }
}

// Permuted, sliced off its alignment, and broadcast: no operand lies as another does.
TEST(CudaEager, PointwiseOpsOverOddStrides) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Graph graph;
    const Tensor a = input(graph, "a", {dtype, {9, 5, 33}});
    const Tensor b = input(graph, "b", {dtype, {5, 1}});
    const Tensor x = slice(permute(a, {2, 1, 0}), 0, 1, 31);  // [30, 5, 9]
    const Tensor y = expand(b, {30, 5, 9});
    const Tensor z = slice(permute(a, {2, 1, 0}), 0, 3, 33);
    const Tensor positive = exp(tanh(x));
    const auto mark = [&](const char* name, const Tensor& value) {
      graph.mark_output(name, value.value());
    };
    mark("negate", -x);
    mark("exp", exp(tanh(z)));
    mark("log", log(positive));
    mark("sqrt", sqrt(positive));
    mark("rsqrt", rsqrt(positive));
    mark("sin", sin(x));
    mark("cos", cos(z));
    mark("sigmoid", sigmoid(x));
    mark("add", x + y);
    mark("subtract", y - z);
    mark("multiply", x * z);
    mark("divide", y / positive);
    mark("maximum", maximum(x, y));
    mark("less", less(x, z));
    mark("less_equal", less_equal(y, x));
    mark("equal", equal(x, x));
    mark("where", where(less(x, y), z, scalar(x, -3)));
    mark("whole", cast(x, DType::i32));
    mark("wide", cast(x, DType::f32));
    mark("copied", reshape(x, {30 * 45}));
    mark("padded", pad(x, 1, 2, 11));
    mark("constants", softmax(expand(scalar(x, 2), {3, 4})));
    mark("ones", sum(expand(scalar(x, 1), {3, 4}), {1}));
    expect_agreement(graph,
                     {{"a", normals(dtype, {9, 5, 33}, 1)}, {"b", normals(dtype, {5, 1}, 2)}},
                     dtype, device, std::string(info(dtype).name));
  }
}

TEST(CudaEager, ExtremeArgumentsFollowIeee) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {7}});
  graph.mark_output("exp", exp(x).value());
  graph.mark_output("sigmoid", sigmoid(x).value());
  graph.mark_output("tanh", tanh(x).value());
  graph.mark_output("softmax", softmax(x).value());
  const auto got =
      testing::run_eager(graph, {{"x", {-kInfinity, -1e4, -87, 0, 87, 1e4, 88}}}, device);
  EXPECT_EQ(got.at("exp")[0], 0);
  EXPECT_NEAR(got.at("exp")[4] / std::exp(87), 1, 1e-6);
  EXPECT_EQ(got.at("exp")[5], kInfinity);
  EXPECT_EQ(got.at("sigmoid")[0], 0);
  EXPECT_EQ(got.at("sigmoid")[3], 0.5);
  EXPECT_EQ(got.at("sigmoid")[5], 1);
  EXPECT_EQ(got.at("tanh")[1], -1);
  EXPECT_EQ(got.at("softmax")[5], 1);
  EXPECT_EQ(got.at("softmax")[0], 0);
}

TEST(CudaEager, SoftmaxRowsOfEveryLength) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t width : {1, 2, 7, 33, 64, 256, 1000, 1024, 1025, 2048, 4097, 8192, 16384, 16385,
                          32768, 40000, 100003}) {
      const Shape shape = {5, width};
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, shape});
      const Tensor y = softmax(x);
      graph.mark_output("y", y.value());
      graph.mark_output("d_x", softmax_gradient(y, input(graph, "d_y", {dtype, shape})).value());
      auto values = normals(dtype, shape, 3, 3);
      const auto at = [&](int64_t row, int64_t column) -> double& {
        return values[static_cast<size_t>(row * width + column)];
      };
      for (int64_t i = 0; i < width; ++i) at(2, i) = -kInfinity;              // sees nothing
      for (int64_t i = 0; i + 1 < width; ++i) at(3, i) = -kInfinity;          // sees the last
      for (int64_t i = 0; i < width - width / 3; ++i) at(4, i) = -kInfinity;  // sees the end
      expect_agreement(graph, {{"x", values}, {"d_y", normals(dtype, shape, 4)}}, dtype, device,
                       std::to_string(width), dtype == DType::f32 ? 16 : 4);
    }
}

TEST(CudaEager, SoftmaxAlongAnAxisThatHasSteps) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {6, 50, 9}});
  const Tensor y = softmax(transpose(x));
  graph.mark_output("y", y.value());
  graph.mark_output("d_x", softmax_gradient(y, transpose(x)).value());
  expect_agreement(graph, {{"x", normals(DType::bf16, {6, 50, 9}, 5)}}, DType::bf16, device,
                   "steps", 4);
}

TEST(CudaEager, ReductionsOfOddShapes) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (const Shape& shape :
       {Shape{3000, 37}, Shape{37, 3000}, Shape{5, 7, 9, 11}, Shape{1, 100003}, Shape{100003, 1},
        Shape{65, 1024}, Shape{1024, 64}, Shape{2, 300, 3, 70}})
    for (DType dtype : {DType::f32, DType::bf16}) {
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, shape});
      for (unsigned axes = 1; axes < 1u << shape.rank(); ++axes) {
        Dims which;
        for (int axis = 0; axis < shape.rank(); ++axis)
          if (axes >> axis & 1) which.push_back(axis);
        const std::string name = std::to_string(axes);
        graph.mark_output("mean" + name, mean(x, which).value());
        graph.mark_output("max" + name, max(x, which).value());
        graph.mark_output("sum" + name, (sum(x, which) * (1.0 / 512)).value());
      }
      expect_agreement(graph, {{"x", normals(dtype, shape, 6)}}, dtype, device, to_string(shape));
    }
}

TEST(CudaEager, LargeReductionsStayAccurate) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3000, 37}});
  graph.mark_output("rows", sum(x, {0}).value());
  graph.mark_output("columns", sum(transpose(x), {1}).value());
  graph.mark_output("all", mean(x, {0, 1}).value());
  const InterpreterInputs inputs{{"x", std::vector<double>(3000 * 37, static_cast<float>(0.1))}};
  const auto got = testing::run_eager(graph, inputs, device);
  for (double value : got.at("rows")) EXPECT_NEAR(value, 300, 300 * 4e-6);
  for (double value : got.at("columns")) EXPECT_NEAR(value, 300, 300 * 4e-6);
  EXPECT_NEAR(got.at("all")[0], 0.1, 0.1 * 4e-6);
}

TEST(CudaEager, ProductsOfEveryLayout) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Graph graph;
    const Tensor a = input(graph, "a", {dtype, {3, 40, 24}});
    const Tensor b = input(graph, "b", {dtype, {3, 24, 56}});
    const Tensor heads = input(graph, "heads", {dtype, {2, 17, 3, 8}});  // [B, S, H, D]
    const auto mark = [&](const char* name, const Tensor& value) {
      graph.mark_output(name, (value * 0.125).value());
    };
    const Tensor q = permute(heads, {0, 2, 1, 3});
    mark("plain", matmul(a, b));
    mark("right_transposed", matmul(a, transpose(a)));
    mark("left_transposed", matmul(transpose(b), transpose(a)));
    mark("both", matmul(transpose(a), a));
    mark("shared_right", matmul(a, reshape(slice(b, 0, 1, 2), {24, 56})));
    mark("shared_left", matmul(slice(a, 0, 2, 3), b));
    mark("heads", matmul(q, transpose(q)));
    mark("expanded", matmul(expand(slice(a, 1, 0, 1), {3, 40, 24}), b));  // a copy first
    mark("strided", matmul(slice(a, 2, 1, 18), slice(b, 1, 3, 20)));
    mark("a_row", matmul(slice(a, 1, 5, 6), b));
    mark("a_column", matmul(a, slice(b, 2, 7, 8)));
    mark("outer", matmul(slice(a, 2, 3, 4), slice(b, 1, 3, 4)));
    mark("constant", matmul(a, expand(scalar(a, 0.5), {24, 5})));
    expect_agreement(graph,
                     {{"a", normals(dtype, {3, 40, 24}, 7)},
                      {"b", normals(dtype, {3, 24, 56}, 8)},
                      {"heads", normals(dtype, {2, 17, 3, 8}, 9)}},
                     dtype, device, std::string(info(dtype).name));
  }
}

TEST(CudaEager, Fp32ProductsAreNotTf32) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {128, 512}});
  graph.mark_output("product", matmul(a, transpose(a)).value());
  const InterpreterInputs inputs{{"a", normals(DType::f32, {128, 512}, 10)}};
  const auto expected = interpret(graph, inputs, {});
  const auto got = testing::run_eager(graph, inputs, device);
  double worst = 0;
  for (size_t i = 0; i < got.at("product").size(); ++i)
    worst = larger(
        worst, std::abs(got.at("product")[i] - expected[graph.index(graph.outputs()[0].value)][i]));
  EXPECT_LT(worst, 5e-4);  // TF32 would be off by some 2e-2
}

// Poisoned results would show as NaN wherever a kernel left something unwritten.
TEST(CudaEager, EveryResultIsWrittenWhole) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (uint64_t seed = 200; seed < 230; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
    const Schedule schedule = eager_schedule(made.graph);
    EagerExecutor executor(made.graph, schedule, device);
    for (const auto& [name, values] : made.inputs)
      testing::upload(device, executor.input(name), values);
    executor.set_poison(true);
    executor.run_all();
    for (const Output& output : made.graph.outputs())
      for (double value : testing::elements(device, executor.output(output.name)))
        ASSERT_FALSE(std::isnan(value)) << "seed " << seed << ": " << output.name;
    executor.release();
  }
}

}  // namespace
}  // namespace ridgeline::cuda_eager_test

// Tables, lists of tensors and rows at sizes that random graphs do not reach, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "graph/tensor.h"
#include "support/expect.h"
#include "support/gpu.h"
#include "support/run_eager.h"

namespace ridgeline::table_ops_test {
namespace {

std::vector<double> normals(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = round_to(dtype, std::normal_distribution<double>()(random));
  return values;
}

std::vector<double> indices(int64_t count, int64_t limit, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(count));
  // Half of them among the first ten, so that rows of the table get long sums.
  for (double& value : values)
    value = static_cast<double>(
        random() % static_cast<uint64_t>(random() % 2 ? limit : std::min<int64_t>(limit, 10)));
  return values;
}

// `units` of the dtype's epsilon, relative to the largest value of the result or 1.
void expect_agreement(const Graph& graph, const InterpreterInputs& inputs, DType dtype,
                      Device& device, double units) {
  const auto expected = interpret(graph, inputs, {.round_to_dtype = true});
  const auto got = testing::run_eager(graph, inputs, device);
  for (const Output& output : graph.outputs()) {
    const auto& reference = expected[graph.index(output.value)];
    const auto& values = got.at(output.name);
    ASSERT_EQ(values.size(), reference.size());
    double largest = 1;
    for (double value : reference) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], reference[i], units * info(dtype).epsilon * largest)
          << output.name << "[" << i << "] " << info(dtype).name;
  }
}

void check_tables(Device& device) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (int64_t width : {1, 7, 80, 768, 1100}) {
      constexpr int64_t kRows = 50;
      const int64_t count = width <= 80 ? 1300 : 130;  // also more than a block looks at together
      Graph graph;
      const Tensor table = input(graph, "table", {dtype, {kRows, width}});
      const Tensor updates = input(graph, "updates", {dtype, {count / 13, 13, width}});
      const Tensor ids = input(graph, "ids", {DType::i32, {count / 13, 13}});
      const Tensor columns = input(graph, "columns", {DType::i32, {count / 13, 13}});
      const auto mark = [&](const char* name, const Tensor& x) {
        graph.mark_output(name, x.value());
      };
      mark("gathered", gather(table, ids));
      mark("gathered_parts", gather(slice(table, 1, width / 2, width), slice(ids, 1, 3, 9)));
      mark("added", scatter_add(ids, updates, kRows));
      mark("picked", pick(updates, columns));
      mark("placed", place(columns, pick(updates, columns), width));
      mark("turned", gather(transpose(table), where(less(columns, ids), columns, columns)));
      expect_agreement(graph,
                       {{"table", normals(dtype, kRows * width, 1)},
                        {"updates", normals(dtype, count * width, 2)},
                        {"ids", indices(count, kRows, 3)},
                        {"columns", indices(count, width, 4)}},
                       dtype, device, dtype == DType::f32 ? 8 : 2);
    }
}

void check_lists(Device& device) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (AdamWVariant variant : {AdamWVariant::cs336, AdamWVariant::pytorch}) {
      Graph graph;
      InterpreterInputs inputs;
      std::vector<AdamWTensors> tensors;
      std::vector<Tensor> gradients;
      const auto made = [&](const std::string& name, DType of, const Shape& shape) {
        inputs[name] = normals(of, element_count(shape), inputs.size());
        return input(graph, name, {of, shape});
      };
      const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
      inputs["scalars"] = {static_cast<float>(0.01), static_cast<float>(0.19),
                           static_cast<float>(0.002)};
      for (int64_t i = 0; i < 150; ++i) {  // more than one launch holds
        const Shape shape = i == 5 ? Shape{130, 257} : Shape{1 + i % 7, 1 + i * 3 % 50};
        const std::string n = std::to_string(i);
        const Shape turned = {shape[1], shape[0]};
        const Tensor gradient =
            i % 3 == 0   ? transpose(made("g" + n, dtype, turned))
            : i % 3 == 1 ? slice(made("g" + n, dtype, {shape[0], shape[1] + 1}), 1, 1, shape[1] + 1)
                         : made("g" + n, dtype, shape);
        tensors.push_back({made("p" + n, dtype, shape), gradient, made("m" + n, DType::f32, shape),
                           made("v" + n, DType::f32, shape)});
        for (double& value : inputs["v" + n]) value = static_cast<float>(0.1 + value * value);
        gradients.push_back(gradient);
      }
      const Tensor squares = sum_of_squares(gradients);
      graph.mark_output("squares", squares.value());
      const Tensor scale = scalar(squares, 30) / sqrt(squares);
      const auto updated = adamw_update(tensors, scalars, scale, {.variant = variant});
      for (size_t i = 0; i < updated.size(); ++i) {
        const std::string n = std::to_string(i);
        graph.mark_output("p" + n, updated[i].parameter.value());
        graph.mark_output("m" + n, updated[i].first_moment.value());
        graph.mark_output("v" + n, updated[i].second_moment.value());
      }
      verify(graph);
      expect_agreement(graph, inputs, dtype, device, 8);
    }
}

void check_rows(Device& device) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t width : {1, 2, 7, 33, 64, 1000, 1025, 10000, 16385, 40000}) {
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, {5, width}});
      const Tensor d_y = input(graph, "d_y", {dtype, {5, width}});
      const Tensor y = log_softmax(x * 4.0);
      graph.mark_output("y", y.value());
      graph.mark_output("d_x", log_softmax_gradient(y, d_y).value());
      expect_agreement(graph,
                       {{"x", normals(dtype, 5 * width, 1)}, {"d_y", normals(dtype, 5 * width, 2)}},
                       dtype, device, dtype == DType::f32 ? 24 : 4);
    }
}

TEST(TableOps, OnTheCpu) {
  for (Isa isa : supported_isas()) {
    CpuDevice device({.threads = 3, .isa = isa});
    check_tables(device);
    check_lists(device);
    check_rows(device);
  }
}

TEST(TableOps, TablesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_tables(device);
}
TEST(TableOps, ListsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_lists(device);
}
TEST(TableOps, RowsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_rows(device);
}

struct Lookup {
  Graph graph;
  Lookup() {
    const Tensor table = input(graph, "table", {DType::f32, {3, 2}});
    const Tensor ids = input(graph, "ids", {DType::i32, {2}});
    graph.mark_output("rows", gather(table, ids).value());
  }
};

TEST(TableOps, AnIndexOutsideTheTableIsNamed) {
  const Lookup made;
  CpuDevice device({.threads = 1});
  for (double wrong : {3.0, -1.0})
    EXPECT_ERROR(testing::run_eager(made.graph,
                                    {{"table", {1, 2, 3, 4, 5, 6}}, {"ids", {0, wrong}}}, device),
                 ErrorKind::usage, "expected one in [0, 3)");
}

// A kernel cannot throw: what it could not find must not pass for a value.
TEST(TableOps, AnIndexOutsideTheTableGivesNanOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  const Lookup made;
  CudaDevice device;
  const auto got =
      testing::run_eager(made.graph, {{"table", {1, 2, 3, 4, 5, 6}}, {"ids", {1, 3}}}, device);
  EXPECT_EQ(got.at("rows")[1], 4);
  EXPECT_TRUE(std::isnan(got.at("rows")[2]));
}

}  // namespace
}  // namespace ridgeline::table_ops_test

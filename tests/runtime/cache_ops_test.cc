// Caches of rows and the search for the largest element, on every device: against the oracle, and
// step after step by one plan.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/tensor.h"
#include "runtime/compiled_support.h"
#include "support/gpu.h"

namespace ridgeline::cache_ops_test {
namespace {

using testing::Results;

std::vector<double> normals_of(DType dtype, int64_t count, std::mt19937_64& random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values)
    value = round_to(dtype, 4 * std::normal_distribution<double>()(random));
  return values;
}

Tensor position_input(Graph& graph) {
  return Tensor(graph, graph.input({"position", Role::step_scalars}, {DType::i32, {1}}));
}

// Nothing is rounded here: all agree to the last bit.
void expect_equal_everywhere(const Graph& graph, const InterpreterInputs& inputs, Device& device) {
  verify(graph);
  const Results expected = testing::interpreted(graph, inputs);
  EXPECT_EQ(testing::disagreement(graph, testing::run_eager(graph, inputs, device), expected, {0}),
            "");
  EXPECT_EQ(
      testing::disagreement(graph, testing::run_compiled(graph, inputs, device), expected, {0}),
      "");
}

void check_appends(Device& device) {
  std::mt19937_64 random(5);
  const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
  for (int round = 0; round < 60; ++round) {
    static constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i32};
    static constexpr int64_t kWidths[] = {1, 3, 8, 64, 257};
    const DType dtype = kDTypes[below(4)];
    const int64_t slots = 1 + below(9), count = 1 + below(12), width = kWidths[below(5)];
    const int64_t positions[] = {0, slots - 1, slots, 1000003};
    Shape cache_shape, rows_shape;
    for (int64_t axis = below(4); axis > 0; --axis) cache_shape.push_back(1 + below(3));
    rows_shape = cache_shape;
    for (int64_t size : {slots, width}) cache_shape.push_back(size);
    const bool is_turned = below(2) == 0;
    for (int64_t size : {is_turned ? width : count, is_turned ? count : width})
      rows_shape.push_back(size);
    Graph graph;
    const Tensor cache(graph, graph.input({"cache", Role::cache}, {dtype, cache_shape}));
    const Tensor rows = input(graph, "rows", {dtype, rows_shape});
    const Tensor position = position_input(graph);
    graph.mark_output("cache", append(cache, is_turned ? transpose(rows) : rows, position).value());
    graph.mark_output("held", ring_positions(position, count, slots).value());
    graph.mark_output("position", advance(position, count).value());
    SCOPED_TRACE(to_text(graph));
    expect_equal_everywhere(graph,
                            {{"cache", normals_of(dtype, element_count(cache_shape), random)},
                             {"rows", normals_of(dtype, element_count(rows_shape), random)},
                             {"position", {static_cast<double>(positions[below(4)])}}},
                            device);
  }
}

// Rows with one largest element, several, NaN, infinities and zeros of both signs.
void check_argmax(Device& device) {
  std::mt19937_64 random(6);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (int64_t width : {1, 2, 33, 2049, 20000, 70001}) {
      constexpr int64_t kRows = 8;
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, {kRows, width}});
      graph.mark_output("whole", argmax(x).value());
      graph.mark_output("part", argmax(slice(x, 1, width / 3, width)).value());
      graph.mark_output("turned",
                        argmax(transpose(slice(x, 1, 0, std::min<int64_t>(width, 33)))).value());
      std::vector<double> values = normals_of(dtype, kRows * width, random);
      const auto row = [&](int64_t number) { return values.begin() + number * width; };
      const auto somewhere = [&](int64_t number) {
        return row(number) + static_cast<int64_t>(random() % static_cast<uint64_t>(width));
      };
      for (int i = 0; i < 3; ++i) *somewhere(1) = 100;
      for (int i = 0; i < 2; ++i) *somewhere(2) = std::nan("");
      *somewhere(3) = INFINITY;
      std::fill(row(4), row(5), -INFINITY);
      std::fill(row(5), row(6), -0.0);
      *somewhere(5) = 0.0;
      for (auto at = row(6); at != row(7); ++at) *at = -std::abs(*at);
      SCOPED_TRACE(std::to_string(width) + " in " + std::string(info(dtype).name));
      expect_equal_everywhere(graph, {{"x", values}}, device);
    }
}

// A toy decoder: the token's row joins a cache, what the cache holds gives the next token.
Graph toy_decoder(int64_t slots) {
  constexpr int64_t kBatch = 2, kWidth = 8, kTokens = 50;
  Graph graph;
  const Tensor table = input(graph, "table", {DType::f32, {kTokens, kWidth}});
  const Tensor token = input(graph, "token", {DType::i32, {kBatch, 1, 1}});
  const Tensor cache(graph,
                     graph.input({"cache", Role::cache}, {DType::f32, {kBatch, slots, kWidth}}));
  const Tensor position = position_input(graph);
  const Tensor at = cast(position, DType::f32) * 0.25;  // read when the position has moved on
  const Tensor rows = gather(table, reshape(token, {kBatch, 1}));
  const Tensor held = ring_positions(position, 1, slots);
  const Tensor appended = append(cache, rows, position);
  const Tensor is_held = reshape(less_equal(scalar(held, 0), held), {slots, 1});
  const Tensor weights = where(is_held, sin(appended * 3.0), scalar(appended, 0));
  const Tensor state = sum(weights, {1}) + rows;
  const Tensor logits = matmul(state, transpose(table));
  const Tensor next = append(token, reshape(argmax(logits), {kBatch, 1, 1}), position);
  const Tensor after = advance(position, 1);
  graph.mark_output("logits", (logits + at).value());
  graph.mark_output("at", sin(at).value());
  graph.mark_output("cache", appended.value());
  graph.mark_output("token", next.value());
  graph.mark_output("position", after.value());
  verify(graph);
  return graph;
}

template <class Executor>
void expect_steps(Executor& executor, const Graph& graph, InterpreterInputs state, Device& device) {
  for (const auto& [name, values] : state) testing::upload(device, executor.input(name), values);
  for (int step = 0; step < 9; ++step) {
    executor.run_all();
    const Results expected = testing::interpreted(graph, state);
    Results got;
    for (const Output& output : graph.outputs())
      got[output.name] = testing::elements(device, executor.output(output.name));
    ASSERT_EQ(testing::disagreement(graph, got, expected, {2e-5}), "") << "step " << step;
    for (const char* name : {"cache", "token", "position"}) state[name] = expected.at(name);
  }
}

void check_steps(Device& device) {
  constexpr int64_t kSlots = 5;
  const Graph graph = toy_decoder(kSlots);
  std::mt19937_64 random(7);
  const InterpreterInputs state = {{"table", normals_of(DType::f32, 50 * 8, random)},
                                   {"token", {3, 11}},
                                   {"cache", normals_of(DType::f32, 2 * kSlots * 8, random)},
                                   {"position", {0}}};
  const Schedule schedule = eager_schedule(graph);
  EagerExecutor eager(graph, schedule, device);
  expect_steps(eager, graph, state, device);
  for (bool reorders : {false, true}) {
    const Graph optimized = simplify(decompose(graph));
    const Plan plan = make_plan(optimized, {.overlap = reorders, .early_updates = reorders});
    CompiledExecutor compiled(optimized, plan, device, {.record = true});
    expect_steps(compiled, optimized, state, device);
  }
}

TEST(CacheOps, OnTheCpu) {
  for (Isa isa : supported_isas()) {
    CpuDevice device({.threads = 3, .isa = isa});
    check_argmax(device);
  }
  CpuDevice device({.threads = 3});
  check_appends(device);
}

TEST(CacheOps, OnePlanServesEveryStepOnTheCpu) {
  CpuDevice device({.threads = 2});
  check_steps(device);
}

TEST(CacheOps, ANegativePositionIsAnErrorOnTheCpu) {
  Graph graph;
  const Tensor position = position_input(graph);
  graph.mark_output("position", advance(position, 200).value());
  CpuDevice device({.threads = 1});
  EXPECT_THROW(testing::run_eager(graph, {{"position", {-1}}}, device), Error);
  EXPECT_THROW(testing::run_eager(graph, {{"position", {2147483520}}}, device), Error);
}

TEST(CacheOps, AppendsOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_appends(device);
}

TEST(CacheOps, ArgmaxOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_argmax(device);
}

TEST(CacheOps, OneLaunchGraphServesEveryStepOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_steps(device);
}

}  // namespace
}  // namespace ridgeline::cache_ops_test

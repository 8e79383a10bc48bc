// Attention over a cache, on every device: against the oracle and against the same in single nodes,
// at positions before and behind the end of the ring.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autodiff/gradient.h"
#include "graph/tensor.h"
#include "passes/autocast.h"
#include "runtime/compiled_support.h"
#include "support/expect.h"
#include "support/gpu.h"

namespace ridgeline::cached_attention_test {
namespace {

using testing::Results;

struct CachedProblem {
  int64_t batch = 1, key_heads = 1, group = 1, queries = 1, slots = 1, width = 1, window = 0;
  DType dtype = DType::f32;

  Shape query_shape() const { return {batch, key_heads * group, queries, width}; }
  Shape rows_shape() const { return {batch, key_heads, queries, width}; }
  Shape cache_shape() const { return {batch, key_heads, slots, width}; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
  std::string text() const {
    return to_string(query_shape()) + " over " + to_string(cache_shape()) + ", window " +
           std::to_string(window) + ", " + std::string(info(dtype).name);
  }
};

struct CachedInputs {
  Tensor q, keys, values, position;  // keys and values after the append

  CachedInputs(Graph& graph, const CachedProblem& problem) {
    const auto cache = [&](const char* name) {
      return Tensor(graph,
                    graph.input({name, Role::cache}, {problem.dtype, problem.cache_shape()}));
    };
    const auto made = [&](const char* name, const Shape& shape) {
      return input(graph, name, {problem.dtype, shape});
    };
    q = made("q", problem.query_shape());
    position = Tensor(graph, graph.input({"position", Role::step_scalars}, {DType::i32, {1}}));
    keys = append(cache("keys"), made("new_keys", problem.rows_shape()), position);
    values = append(cache("values"), made("new_values", problem.rows_shape()), position);
  }
};

Graph as_one_node(const CachedProblem& problem) {
  Graph graph;
  const CachedInputs in(graph, problem);
  const AttentionResult result =
      cached_attention(in.q, in.keys, in.values, in.position,
                       {.scale = problem.scale(), .mask = {.window = problem.window}});
  graph.mark_output("output", result.output.value());
  graph.mark_output("log_sum_exp", result.log_sum_exp.value());
  graph.mark_output("position", advance(in.position, problem.queries).value());
  verify(graph);
  return graph;
}

// In fp32, whatever the cache holds.
Graph in_single_nodes(const CachedProblem& p) {
  Graph graph;
  const CachedInputs in(graph, p);
  const Tensor q =
      reshape(cast(in.q, DType::f32), {p.batch, p.key_heads, p.group * p.queries, p.width});
  const Tensor held = cast(ring_positions(in.position, p.queries, p.slots), DType::f32);
  const Tensor own = reshape(
      cast(in.position, DType::f32) + cast(iota(graph, p.queries), DType::f32), {p.queries, 1});
  Tensor scores = matmul(q, transpose(cast(in.keys, DType::f32))) * p.scale();
  scores = reshape(scores, {p.batch, p.key_heads, p.group, p.queries, p.slots});
  const Tensor hidden = scalar(scores, -1e30);
  scores = where(less_equal(held, own), scores, hidden);
  if (p.window > 0) scores = where(less(own - static_cast<double>(p.window), held), scores, hidden);
  scores = where(less_equal(scalar(held, 0), held), scores, hidden);
  const Tensor weights =
      reshape(softmax(scores), {p.batch, p.key_heads, p.group * p.queries, p.slots});
  graph.mark_output("output",
                    reshape(matmul(weights, cast(in.values, DType::f32)), p.query_shape()).value());
  verify(graph);
  return graph;
}

CachedProblem random_cached_problem(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  static constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};
  constexpr int64_t kMostWork = 60000;  // for the oracle
  for (;;) {
    const CachedProblem problem{.batch = pick({1, 2}),
                                .key_heads = pick({1, 2, 3}),
                                .group = pick({1, 2, 4, 5}),
                                .queries = pick({1, 1, 1, 2, 5, 20}),
                                .slots = pick({1, 2, 7, 16, 33, 300, 900}),
                                .width = pick({1, 7, 8, 33, 64, 80, 128, 256}),
                                .window = pick({0, 0, 1, 3, 40, 512}),
                                .dtype = kDTypes[random() % 3]};
    if (element_count(problem.query_shape()) * problem.slots <= kMostWork) return problem;
  }
}

// Slots that hold no position yet are `unfilled`.
InterpreterInputs cached_values(const CachedProblem& problem, int64_t position,
                                std::mt19937_64& random, double unfilled = 1000) {
  const auto normals = [&](const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (double& value : values)
      value = round_to(problem.dtype, std::normal_distribution<double>()(random));
    return values;
  };
  InterpreterInputs inputs{
      {"q", normals(problem.query_shape())},         {"new_keys", normals(problem.rows_shape())},
      {"new_values", normals(problem.rows_shape())}, {"keys", normals(problem.cache_shape())},
      {"values", normals(problem.cache_shape())},    {"position", {static_cast<double>(position)}}};
  for (const char* name : {"keys", "values"})
    for (size_t i = 0; i < inputs[name].size(); ++i)
      if (static_cast<int64_t>(i) / problem.width % problem.slots >= position)
        inputs[name][i] = unfilled;
  return inputs;
}

template <class Executor>
Results step_of(Executor& executor, const Graph& graph, const InterpreterInputs& inputs,
                Device& device) {
  for (const auto& [name, values] : inputs) testing::upload(device, executor.input(name), values);
  executor.run_all();
  Results results;
  for (const Output& output : graph.outputs())
    results[output.name] = testing::elements(device, executor.output(output.name));
  return results;
}

// One plan, so on a GPU one launch graph, serves all positions.
void check_cached_attention(Device& device, uint64_t seed, int rounds) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const CachedProblem problem = random_cached_problem(random);
    SCOPED_TRACE(problem.text());
    const Graph graph = as_one_node(problem), plain = in_single_nodes(problem);
    const Schedule schedule = eager_schedule(graph), plain_schedule = eager_schedule(plain);
    const Plan plan = make_plan(graph, {.overlap = round % 2 == 0, .early_updates = true});
    EagerExecutor eager(graph, schedule, device), single(plain, plain_schedule, device);
    CompiledExecutor compiled(graph, plan, device);
    for (int64_t position : {int64_t{0}, problem.slots - 1, problem.slots,
                             std::max<int64_t>(0, problem.slots - problem.queries),
                             7 * problem.slots + 3, int64_t{1000000}}) {
      const InterpreterInputs inputs = cached_values(problem, position, random);
      const Results expected = testing::interpreted(graph, inputs);
      const testing::Tolerance tolerance{
          problem.dtype == DType::f32 ? 1e-5 : 2 * info(problem.dtype).epsilon};
      ASSERT_EQ(
          testing::disagreement(graph, step_of(eager, graph, inputs, device), expected, tolerance),
          "")
          << "eager at " << position;
      ASSERT_EQ(testing::disagreement(graph, step_of(compiled, graph, inputs, device), expected,
                                      tolerance),
                "")
          << "compiled at " << position;
      if (problem.queries > problem.slots) continue;  // some queries see nothing
      ASSERT_EQ(
          testing::disagreement(plain, step_of(single, plain, inputs, device), expected, tolerance),
          "")
          << "in single nodes at " << position;
    }
  }
}

// Memory that nothing was stored in may hold anything.
void check_unfilled_slots(Device& device) {
  std::mt19937_64 random(3);
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t position : {0, 3, 30, 60}) {
      const CachedProblem problem{
          .key_heads = 2, .group = 2, .queries = 3, .slots = 64, .width = 40, .dtype = dtype};
      const Graph graph = as_one_node(problem);
      const auto got =
          testing::run_eager(graph, cached_values(problem, position, random, std::nan("")), device);
      for (double value : got.at("output")) ASSERT_TRUE(std::isfinite(value)) << position;
    }
}

// Single nodes again, after the passes, which may make another attention node of them.
void check_passes(Device& device) {
  std::mt19937_64 random(4);
  const CachedProblem problem{
      .batch = 2, .group = 3, .queries = 2, .slots = 9, .width = 16, .window = 5};
  const Graph graph = simplify(decompose(flash(in_single_nodes(problem))));
  const Plan plan = make_plan(graph, {.overlap = true, .early_updates = true});
  CompiledExecutor executor(graph, plan, device);
  for (int64_t position : {0, 7, 8, 9, 40}) {
    const InterpreterInputs inputs = cached_values(problem, position, random);
    const Results expected = testing::interpreted(as_one_node(problem), inputs);
    ASSERT_EQ(
        testing::disagreement(graph, step_of(executor, graph, inputs, device), expected, {1e-5}),
        "")
        << position;
  }
}

TEST(CachedAttention, AgreesWithTheOracleOnTheCpu) {
  for (Isa isa : supported_isas()) {
    CpuDevice device({.threads = 3, .isa = isa});
    check_cached_attention(device, 1 + static_cast<uint64_t>(isa), 15);
    check_unfilled_slots(device);
  }
}

TEST(CachedAttention, InSingleNodesAfterThePassesOnTheCpu) {
  CpuDevice device({.threads = 2});
  check_passes(device);
}

TEST(CachedAttention, ThreadsChangeNoBit) {
  std::mt19937_64 random(9);
  const CachedProblem problem{.group = 4, .slots = 1500, .width = 64, .dtype = DType::bf16};
  const Graph graph = as_one_node(problem);
  const InterpreterInputs inputs = cached_values(problem, 1400, random);
  CpuDevice one({.threads = 1}), four({.threads = 4});
  EXPECT_EQ(testing::run_eager(graph, inputs, one), testing::run_eager(graph, inputs, four));
}

TEST(CachedAttention, HasNoGradient) {
  Graph graph;
  const CachedInputs in(graph, {.queries = 2, .slots = 4, .width = 8});
  const Tensor y = cached_attention(in.q, in.keys, in.values, in.position, {}).output;
  const Cotangent cotangent{y, y};
  const Tensor sources[] = {in.q};
  EXPECT_ERROR(gradient({&cotangent, 1}, sources), ErrorKind::usage,
               "attention over a cache has no gradient");
}

// The cache keeps its dtype; what comes from narrow products is widened to it.
TEST(CachedAttention, StaysInTheDtypeOfTheCacheUnderAutocast) {
  Graph graph;
  const CachedProblem problem{.queries = 1, .slots = 4, .width = 8};
  const Tensor w = input(graph, "w", {DType::f32, {8, 8}});
  const Tensor x = input(graph, "x", {DType::f32, {1, 1, 1, 8}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const Tensor cache(graph,
                     graph.input({"cache", Role::cache}, {DType::f32, problem.cache_shape()}));
  const Tensor rows = matmul(x, w);
  const Tensor appended = append(cache, rows, position);
  graph.mark_output("y", cached_attention(rows, appended, appended, position, {}).output.value());
  advance(position, 1);
  const Graph narrow = autocast(graph, DType::bf16);
  for (const Node& node : narrow.nodes())
    if (node.op == Op::attention) {
      EXPECT_EQ(node.outputs[0].dtype, DType::f32) << to_text(narrow);
    }
}

TEST(CachedAttention, AgreesWithTheOracleOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_cached_attention(device, 20, 40);
}

TEST(CachedAttention, UnfilledSlotsAreNotReadOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_unfilled_slots(device);
}

TEST(CachedAttention, InSingleNodesAfterThePassesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  check_passes(device);
}

}  // namespace
}  // namespace ridgeline::cached_attention_test

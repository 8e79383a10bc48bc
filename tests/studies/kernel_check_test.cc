// Kernels that are checked one by one: right ones of any graph pass, wrong ones do not.
#include "studies/kernel_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "passes/decompose.h"
#include "passes/simplify.h"
#include "runtime/compiled_executor.h"
#include "runtime/cpu_device.h"
#include "studies/row.h"
#include "support/exact_graph.h"
#include "support/from_environment.h"
#include "support/gpu.h"
#include "support/planted_faults.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

using testing::RandomGraph;
using testing::RandomGraphMaker;

CpuOptions two_threads() {
  return {.threads = 2, .compiler = {.cache_dir = "off"}};
}

// What a checker says of one run: eager, or compiled.
Verification checked(const Graph& graph, const InterpreterInputs& inputs, Device& device,
                     bool compiled) {
  KernelChecker checker(device, 7);
  const auto run = [&](auto& executor) {
    for (const auto& [name, values] : inputs) testing::upload(device, executor.input(name), values);
    executor.set_poison(true);
    executor.set_observer(&checker);
    executor.run_all();
  };
  if (compiled) {
    const Plan plan = make_plan(graph);
    CompiledExecutor executor(graph, plan, device);
    run(executor);
  } else {
    const Schedule schedule = eager_schedule(graph);
    EagerExecutor executor(graph, schedule, device);
    run(executor);
  }
  Verification verification;
  checker.report("", verification);
  return verification;
}

void expect_right_kernels_to_pass(Device& device, uint64_t graphs, uint64_t compiled_graphs) {
  for (uint64_t seed = testing::first_seed(); seed < testing::first_seed() + graphs; ++seed)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const RandomGraph random = RandomGraphMaker(seed, dtype).make(14);
      EXPECT_EQ(first_wrong_tensor(checked(random.graph, random.inputs, device, false)), "")
          << "seed " << seed << ' ' << info(dtype).name << '\n'
          << to_text(random.graph);
      if (seed - testing::first_seed() >= compiled_graphs) continue;
      const Graph lowered = simplify(decompose(random.graph));
      EXPECT_EQ(first_wrong_tensor(checked(lowered, random.inputs, device, true)), "")
          << "compiled, seed " << seed << ' ' << info(dtype).name << '\n'
          << to_text(lowered);
    }
}

TEST(KernelCheck, RightKernelsOfRandomGraphsPass) {
  CpuDevice device(two_threads());
  const uint64_t graphs = testing::graphs_wanted(40);
  expect_right_kernels_to_pass(device, graphs, std::max<uint64_t>(2, graphs / 20));
}

// Values that are no numbers, conditions and integers are right as well.
TEST(KernelCheck, RightKernelsOfExactGraphsPass) {
  CpuDevice device(two_threads());
  const uint64_t first = testing::first_seed(), graphs = testing::graphs_wanted(60);
  for (uint64_t seed = first; seed < first + graphs; ++seed) {
    const RandomGraph exact = testing::ExactGraphMaker(seed).make(12);
    EXPECT_EQ(first_wrong_tensor(checked(exact.graph, exact.inputs, device, false)), "")
        << "seed " << seed << '\n'
        << to_text(exact.graph);
    if (seed - first >= std::max<uint64_t>(2, graphs / 20)) continue;
    const Graph lowered = simplify(decompose(exact.graph));
    EXPECT_EQ(first_wrong_tensor(checked(lowered, exact.inputs, device, true)), "")
        << "compiled, seed " << seed << '\n'
        << to_text(lowered);
  }
}

TEST(KernelCheck, RightKernelsOfRandomGraphsPassOnAGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const uint64_t graphs = testing::graphs_wanted(40);
  expect_right_kernels_to_pass(device, graphs, std::max<uint64_t>(2, graphs / 20));
}

// One op of every kind, large enough to be sampled.
Graph of_large_tensors() {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {1500, 300}});
  const Tensor w = input(graph, "w", {DType::f32, {300, 260}});
  const Tensor y = matmul(x, w);
  graph.mark_output("product", y.value());
  graph.mark_output("weights", softmax(y).value());
  graph.mark_output("sum", sum(y, {0}).value());
  graph.mark_output("double", (x + x).value());
  return graph;
}

TEST(KernelCheck, LargeResultsAreLookedAtWhereTilesEnd) {
  const Graph graph = of_large_tensors();
  const InterpreterInputs inputs = [&] {
    std::mt19937_64 random(3);
    InterpreterInputs values;
    for (Value value : graph.inputs())
      for (int64_t i = 0; i < element_count(graph.type(value).shape); ++i)
        values[graph.name(value)].push_back(
            round_to(DType::f32, std::normal_distribution<double>()(random)));
    return values;
  }();
  testing::Faulty<CpuDevice> device(two_threads());
  EXPECT_EQ(first_wrong_tensor(checked(graph, inputs, device, false)), "");
  for (const Op op : {Op::matmul, Op::softmax, Op::sum, Op::add})
    for (const testing::ResultFault& fault : testing::result_faults()) {
      // In the middle of a large tensor a single element is a matter of luck.
      const std::string what = fault.what;
      const bool is_single = what == "an element is off" || what == "an element is not a number" ||
                             what == "a row has the wrong sign";
      if (is_single) continue;
      device.plant({.op = op, .result = fault});
      const std::string wrong = first_wrong_tensor(checked(graph, inputs, device, false));
      if (device.planted()) {
        EXPECT_NE(wrong, "") << info(op).name << ": " << what;
      }
    }
}

TEST(KernelCheck, SaysWhichResultIsWrongAndHowFar) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  graph.mark_output("twice", (x + x).value());
  testing::Faulty<CpuDevice> device(two_threads());
  device.plant(
      {.op = Op::add,
       .result = {"off by a half", [](std::vector<float>& v, size_t, DType) { v[2] += 0.5f; }}});
  const Verification found = checked(graph, {{"x", {1, 2, 3, 4}}}, device, false);
  ASSERT_EQ(found.tensors.size(), 2u);
  EXPECT_EQ(found.tensors[0].name, "twice");
  EXPECT_EQ(found.tensors[0].max_error, 0.5);
  EXPECT_LT(found.tensors[0].tolerance, 1e-6);
  EXPECT_EQ(found.tensors[1].name, "kernels");
  EXPECT_GT(found.tensors[1].max_error, found.tensors[1].tolerance);
}

}  // namespace
}  // namespace ridgeline

// Random graphs on the CPU: compiled against eager against the fp64 interpreter.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>

#include "autodiff/gradient.h"
#include "base/child_process.h"
#include "base/float16.h"
#include "measure/test_support.h"
#include "models/attention.h"
#include "models/layers.h"
#include "runtime/compiled_support.h"
#include "support/from_environment.h"

namespace ridgeline::compiled_cpu_test {
namespace {

using testing::first_seed;
using testing::graphs_wanted;
using testing::Results;

CpuDevice& device() {
  static CpuDevice cpu({.threads = 3, .compiler = {.cache_dir = "off"}});
  return cpu;
}

TEST(CompiledCpu, RandomGraphsInFp32) {
  testing::expect_agreement_of_many(
      first_seed(), graphs_wanted(100), DType::f32, device(),
      [](uint64_t seed) { return testing::RandomGraphMaker(seed).make(14); });
}

TEST(CompiledCpu, RandomGraphsAfterPasses) {
  testing::expect_agreement_after_passes(first_seed() + 5000, graphs_wanted(60), device());
}

// Short graphs: a flipped rounding in 16 bits grows with every further op.
TEST(CompiledCpu, RandomGraphsIn16Bits) {
  for (DType dtype : {DType::bf16, DType::f16})
    testing::expect_agreement_of_many(
        first_seed() + 1000, graphs_wanted(60), dtype, device(),
        [&](uint64_t seed) { return testing::RandomGraphMaker(seed, dtype).make(2); });
}

// Gradients read what forward computed, in a stage of their own.
TEST(CompiledCpu, RandomGraphsWithGradients) {
  const auto make = [](uint64_t seed) {
    testing::RandomGraph made = testing::RandomGraphMaker(seed).differentiable().make(10);
    made.graph = flash(made.graph);
    Graph& graph = made.graph;
    std::vector<Tensor> sources;
    for (Value value : graph.inputs())
      if (is_floating(graph.type(value).dtype)) sources.emplace_back(graph, value);
    const Tensor output(graph, graph.outputs()[0].value);
    graph.begin_stage("backward");
    const Cotangent cotangent{output, expand(scalar(output, 0.25), output.shape())};
    const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
    for (size_t i = 0; i < gradients.size(); ++i)
      graph.mark_output("d" + std::to_string(i), tanh(gradients[i] * 0.1).value());
    graph = simplify(decompose(graph));
    return made;
  };
  testing::expect_agreement_of_many(first_seed() + 20000, graphs_wanted(40), DType::f32, device(),
                                    make, {.overlap = true, .early_updates = true});
}

TEST(CompiledCpu, ResultsAreEqualFromRunToRunAndForAnyNumberOfThreads) {
  CpuDevice one({.threads = 1, .compiler = {.cache_dir = "off"}});
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
    const Results first = testing::run_compiled(made.graph, made.inputs, device());
    EXPECT_EQ(testing::run_compiled(made.graph, made.inputs, device()), first);
    EXPECT_EQ(testing::run_compiled(made.graph, made.inputs, one), first);
  }
}

// A fold stands in loops that read fp32, 16 bits or bytes, after which compilers choose their
// vectors: its bits are the same in all of them, and from every compiler.
TEST(CompiledCpu, FoldsHaveTheSameBitsWhateverElseTheirLoopsRead) {
  constexpr int64_t kRows = 5;
  const auto run = [&](const char* compiler, DType dtype, bool with_bytes) {
    CpuDevice cpu({.threads = 1, .compiler = {.cache_dir = "off", .compiler = compiler}});
    Graph graph;
    InterpreterInputs inputs;
    for (const int64_t columns : {1, 7, 16, 24, 32, 100, 257, 1000}) {
      const std::string width = std::to_string(columns);
      const Shape shape = {kRows, columns};
      Tensor x = cast(input(graph, "x" + width, {dtype, shape}), DType::f32);
      if (with_bytes) x = where(input(graph, "yes" + width, {DType::boolean, shape}), x, x * 0.5);
      for (int64_t i = 0; i < kRows * columns; ++i) {
        const auto value = static_cast<float>(std::sin(0.7 * static_cast<double>(i)));
        inputs["x" + width].push_back(bf16_to_float(float_to_bf16(value)));
        if (with_bytes) inputs["yes" + width].push_back(1);
      }
      graph.mark_output("squares" + width, sum(x * x, {-1}).value());
      graph.mark_output("mean" + width, mean(x, {-1}).value());
      graph.mark_output("max" + width, max(x, {-1}).value());
    }
    return testing::run_compiled(graph, inputs, cpu);
  };
  std::optional<Results> first;
  for (const char* compiler : {"g++", "clang++"}) {
    if (find_program(compiler).empty()) continue;
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool with_bytes : {false, true}) {
        const Results got = run(compiler, dtype, with_bytes);
        if (!first) first = got;
        for (const auto& [name, values] : got)
          EXPECT_EQ(values, first->at(name))
              << name << " by " << compiler << " from " << info(dtype).name
              << (with_bytes ? " and bytes" : "");
      }
  }
}

TEST(CompiledCpu, ExtremeArgumentsFollowIeee) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {8}});
  for (const auto& [name, value] :
       {std::pair{"exp", exp(x)}, std::pair{"sigmoid", sigmoid(x)}, std::pair{"tanh", tanh(x)},
        std::pair{"log", log(x)}, std::pair{"silu", silu(x)}, std::pair{"gelu_tanh", gelu_tanh(x)}})
    graph.mark_output(name, value.value());
  const double infinity = std::numeric_limits<double>::infinity();
  const InterpreterInputs inputs{{"x", {-infinity, -1e4, -87, 0, 1e-40, 87, 1e4, infinity}}};
  const Results got = testing::run_compiled(graph, inputs, device());
  EXPECT_EQ(got.at("exp")[0], 0);
  EXPECT_EQ(got.at("exp")[1], 0);
  EXPECT_NEAR(got.at("exp")[2] / std::exp(-87), 1, 1e-6);
  EXPECT_NEAR(got.at("exp")[5] / std::exp(87), 1, 1e-6);
  EXPECT_EQ(got.at("exp")[6], infinity);
  EXPECT_EQ(got.at("sigmoid")[0], 0);
  EXPECT_EQ(got.at("sigmoid")[3], 0.5);
  EXPECT_EQ(got.at("sigmoid")[7], 1);
  EXPECT_EQ(got.at("tanh")[1], -1);
  EXPECT_EQ(got.at("tanh")[3], 0);
  EXPECT_TRUE(std::isnan(got.at("log")[1]));
  EXPECT_EQ(got.at("log")[3], -infinity);
  EXPECT_NEAR(got.at("log")[4], std::log(static_cast<double>(1e-40f)), 1e-4);
  EXPECT_NEAR(got.at("log")[5], std::log(87), 1e-6);
  EXPECT_EQ(got.at("log")[7], infinity);
  EXPECT_EQ(got.at("silu")[0], 0);
  EXPECT_EQ(got.at("silu")[7], infinity);
  EXPECT_EQ(got.at("gelu_tanh")[0], 0);
  EXPECT_EQ(got.at("gelu_tanh")[1], 0);
  EXPECT_EQ(got.at("gelu_tanh")[7], infinity);
}

// Errors of a few units in the last place, over the range in which a transformer uses them.
TEST(CompiledCpu, FunctionsAreAccurate) {
  constexpr int64_t kCount = 20000;
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {kCount}});
  graph.mark_output("exp", exp(x).value());
  graph.mark_output("tanh", tanh(x).value());
  graph.mark_output("sigmoid", sigmoid(x).value());
  graph.mark_output("log", log(x * x).value());
  graph.mark_output("sin", sin(x).value());
  InterpreterInputs inputs;
  for (int64_t i = 0; i < kCount; ++i)
    inputs["x"].push_back(static_cast<float>(0.0021 * static_cast<double>(i - kCount / 2) + 1e-4));
  const Results got = testing::run_compiled(graph, inputs, device());
  const auto worst = [&](const char* name, const auto& function) {
    double error = 0;
    for (size_t i = 0; i < kCount; ++i) {
      const double exact = function(inputs["x"][i]);
      error = larger(error, std::abs(got.at(name)[i] - exact) / std::max(std::abs(exact), 1e-3));
    }
    return error / 0x1p-23;
  };
  EXPECT_LT(worst("exp", [](double v) { return std::exp(v); }), 2);
  EXPECT_LT(worst("tanh", [](double v) { return std::tanh(v); }), 3);
  EXPECT_LT(worst("sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }), 3);
  EXPECT_LT(worst("log", [](double v) { return std::log(static_cast<float>(v * v)); }), 3);
  EXPECT_LT(worst("sin", [](double v) { return std::sin(v); }), 2);
}

TEST(CompiledCpu, MaximaKeepNan) {
  testing::expect_maxima_keep_nan(device());
}

// Parts of concatenations along every axis, some of which other kernels write.
TEST(CompiledCpu, ConcatenationsAlongEveryAxis) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 3, 8, 16}});
  const TensorType table{DType::f32, {8, 8}};
  const RopeTables tables{input(graph, "cos", table), input(graph, "sin", table)};
  graph.mark_output("rope", rope(x, tables).value());
  for (int axis = 0; axis < 4; ++axis) {
    const std::array parts = {sin(x) * (1.0 + axis), exp(x * 0.5), x * x - (0.5 + axis)};
    graph.mark_output("along" + std::to_string(axis), concat(parts, axis).value());
  }
  const std::array rows = {x / sum(x * x, {-1}), x * max(x, {-1})};
  graph.mark_output("rows", concat(rows, 3).value());
  InterpreterInputs inputs;
  for (int i = 0; i < 2 * 3 * 8 * 16; ++i) inputs["x"].push_back(static_cast<float>(std::sin(i)));
  for (int i = 0; i < 64; ++i) {
    inputs["cos"].push_back(static_cast<float>(std::cos(0.1 * i)));
    inputs["sin"].push_back(static_cast<float>(std::sin(0.1 * i)));
  }
  EXPECT_EQ(testing::fault(graph, inputs, DType::f32, device()), "");
}

// Of a constant, and of one element of each row of a kernel that does more.
TEST(CompiledCpu, Copies) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 2, 3}});
  const Tensor constants = sum(expand(scalar(x, 3), {3, 1}), {1});
  graph.mark_output("product", matmul(x, constants).value());
  graph.mark_output("rows", sum(x, {-1}).value());
  graph.mark_output("column", reshape(permute(slice(x, 2, 0, 1), {1, 0, 2}), {4}).value());
  const InterpreterInputs inputs{{"x", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}};
  EXPECT_EQ(testing::fault(graph, inputs, DType::f32, device()), "");
}

TEST(CompiledCpu, LargeReductionsStayAccurate) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {3000, 37}});
  graph.mark_output("rows", sum(x * 1.0, {0}).value());
  graph.mark_output("columns", sum(transpose(x) * 1.0, {1}).value());
  const InterpreterInputs inputs{{"x", std::vector<double>(3000 * 37, static_cast<float>(0.1))}};
  const Results got = testing::run_compiled(graph, inputs, device());
  for (double value : got.at("rows")) EXPECT_NEAR(value, 300, 300 * 4e-6);
  for (double value : got.at("columns")) EXPECT_NEAR(value, 300, 300 * 4e-6);
}

TEST(CompiledExecutor, AnOutputThatWasNotComputedIsAnError) {
  const Graph graph = attention_training_graph({.batch_size = 1, .seq_len = 4, .head_dim = 2});
  const Plan plan = make_plan(graph);
  CompiledExecutor executor(graph, plan, device());
  EXPECT_THROW(executor.output("output"), Error);
  executor.run_stage(0);
  EXPECT_NO_THROW(executor.output("output"));
  EXPECT_THROW(executor.output("d_q"), Error);
  executor.run_stage(1);
  EXPECT_NO_THROW(executor.output("d_q"));
  EXPECT_THROW(executor.output("no such thing"), Error);
  EXPECT_THROW(executor.input("no such thing"), Error);
}

TEST(CompiledExecutor, StageByStageIsTheSameAsAllAtOnce) {
  const Graph graph = attention_training_graph({.batch_size = 2, .seq_len = 9, .head_dim = 4});
  const Plan plan = make_plan(graph);
  CompiledExecutor executor(graph, plan, device());
  for (Value value : graph.inputs()) {
    std::vector<double> values;
    for (int i = 0; i < 2 * 9 * 4; ++i) values.push_back(std::sin(i + value.node));
    testing::upload(device(), executor.input(graph.node(value).name), values);
  }
  executor.set_poison(true);
  executor.run_all();
  const auto expected = testing::elements(device(), executor.output("d_q"));
  executor.run_stage(0);
  executor.run_stage(1);
  EXPECT_EQ(testing::elements(device(), executor.output("d_q")), expected);
}

TEST(CompiledExecutor, WithoutACompilerItIsUnsupportedAndTakesNoMemory) {
  CpuDevice poor({.threads = 1, .compiler = {.cache_dir = "off", .compiler = "/no/such/compiler"}});
  const testing::RandomGraph made = testing::RandomGraphMaker(3).make(8);
  const Plan plan = make_plan(made.graph);
  EXPECT_ERROR(CompiledExecutor(made.graph, plan, poor), ErrorKind::unsupported, "no C++ compiler");
  EXPECT_EQ(poor.ledger().peak().count, 0);
}

// A second process finds on disk what the first compiled.
TEST(CompiledExecutor, KernelsAreKeptOnDisk) {
  const std::string directory = ::testing::TempDir() + "/compiled-" + std::to_string(getpid());
  const testing::RandomGraph made = testing::RandomGraphMaker(7).make(12);
  Results results[2];
  size_t compiled[2];
  for (int round = 0; round < 2; ++round) {
    CpuDevice cpu({.threads = 1, .compiler = {.cache_dir = directory}});
    results[round] = testing::run_compiled(made.graph, made.inputs, cpu);
    compiled[round] = cpu.compiler().compiled();
  }
  std::filesystem::remove_all(directory);
  EXPECT_GT(compiled[0], 0u);
  EXPECT_EQ(compiled[1], 0u);
  EXPECT_EQ(results[0], results[1]);
}

TEST(CompiledExecutor, TakesAsMuchMemoryAsThePlanSays) {
  const Graph graph = attention_training_graph({.batch_size = 2, .seq_len = 64, .head_dim = 16});
  const Plan plan = make_plan(graph);
  CpuDevice cpu({.threads = 2, .compiler = {.cache_dir = "off"}});
  CompiledExecutor executor(graph, plan, cpu);
  executor.run_all();
  EXPECT_EQ(cpu.ledger().peak(), plan.peak());
}

}  // namespace
}  // namespace ridgeline::compiled_cpu_test

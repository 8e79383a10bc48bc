// Dynamic loss scaling on devices: updates that are skipped, and the scale that follows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float16.h"
#include "base/random.h"
#include "models/adamw.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "studies/kernel_check.h"
#include "support/gpu.h"
#include "support/interpreter/interpreter.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An update of 1000 elements with a factor on its gradients.
struct Update {
  Graph graph;
  InterpreterInputs inputs;
  std::vector<std::pair<std::string, Tensor>> results;

  Update(double factor, bool skips) {
    constexpr int64_t kCount = 1000;
    const auto tensor = [&](const char* name, DType dtype) {
      return input(graph, name, {dtype, {kCount}});
    };
    const AdamWTensors before{.parameter = tensor("p", DType::f32),
                              .gradient = tensor("g", DType::f32),
                              .first_moment = tensor("m", DType::f32),
                              .second_moment = tensor("v", DType::f32),
                              .copy = tensor("copy", DType::f16)};
    const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
    const Tensor scale = input(graph, "scale", {DType::f32, {1}});
    const AdamWTensors after =
        adamw_update({&before, 1}, scalars, scale, {.skips = skips, .copied = true})[0];
    results = {{"p", after.parameter},
               {"m", after.first_moment},
               {"v", after.second_moment},
               {"copy", after.copy}};
    inputs["scalars"] = {static_cast<float>(1e-3), static_cast<float>(0.1),
                         static_cast<float>(1e-3)};
    inputs["scale"] = {factor};
    NormalRandom random(1, "update");
    for (const char* name : {"p", "g", "m", "v"})
      for (int64_t i = 0; i < kCount; ++i)
        inputs[name].push_back(
            static_cast<float>(name[0] == 'v' ? random.uniform() : random.next()));
    inputs["g"][7] = kInfinity;
    inputs["g"][8] = std::nan("");
    for (const double value : inputs["p"])
      inputs["copy"].push_back(f16_to_float(float_to_f16(static_cast<float>(value))));
    for (const auto& [name, result] : results) graph.mark_output("new " + name, result.value());
  }
};

void expect_skipped_updates_to_change_nothing(Device& device) {
  const Update update(0, true);
  const Schedule schedule = eager_schedule(update.graph);
  EagerExecutor executor(update.graph, schedule, device);
  for (const auto& [name, values] : update.inputs)
    testing::upload(device, executor.input(name), values);
  KernelChecker checker(device, 7);
  executor.set_observer(&checker);
  executor.run_all();
  EXPECT_TRUE(checker.wrong().empty());
  const auto interpreted = interpret(update.graph, update.inputs, {.round_to_dtype = true});
  for (const auto& [name, result] : update.results) {
    const std::vector<double>& before = update.inputs.at(name);
    EXPECT_EQ(testing::elements(device, executor.output("new " + name)), before) << name;
    EXPECT_EQ(interpreted[update.graph.index(result.value())], before) << name;
  }
}

TEST(LossScale, ASkippedUpdateChangesNothing) {
  for (Isa isa : supported_isas()) {
    CpuDevice device({.threads = 2, .isa = isa});
    expect_skipped_updates_to_change_nothing(device);
  }
}
TEST(LossScale, ASkippedUpdateChangesNothingOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_skipped_updates_to_change_nothing(device);
}

// As without loss scaling: a factor of 0 is a factor like any other.
TEST(LossScale, AnUpdateThatDoesNotSkipTakesAFactorOf0) {
  CpuDevice device({.threads = 1});
  const Update update(0, false);
  const auto results = testing::run_eager(update.graph, update.inputs, device);
  EXPECT_TRUE(std::isnan(results.at("new m")[7]));
  EXPECT_NE(results.at("new m")[0], update.inputs.at("m")[0]);
}

// The state after each of these norms, by the kernel, by its oracle and by the rule.
void expect_the_scale_to_follow(Device& device) {
  constexpr double kBad = kInfinity, kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    int64_t growth_interval;
    std::vector<double> norms;
    std::vector<double> state;
    std::vector<double> before = {1024, 0, 0};
  };
  const Case cases[] = {
      {3, {kBad}, {512, 0, 1}},
      {3, {kBad, kNan, -kBad}, {128, 0, 3}},
      {3, {1, 1}, {1024, 2, 0}},
      {3, {1, 1, 3e38}, {2048, 0, 0}},
      {3, {1, 1, kBad, 1, 1}, {512, 2, 1}},  // good steps are counted anew
      {0, {1, 1, 1, kBad}, {1024, 0, 1}},    // a scale that stays
      {3, {1}, {2048, 0, 0}, {1024, 3, 0}},  // a state of a run with a longer interval
      {3, {1, 1}, {2048, 1, 0}, {1024, 7, 0}},
  };
  for (const Case& each : cases) {
    Graph graph;
    const Tensor state = input(graph, "state", {DType::f32, {kLossScaleState}});
    const Tensor norm = input(graph, "norm", {DType::f32, {1}});
    const Tensor after = loss_scale_update(state, norm, {.growth_interval = each.growth_interval});
    graph.mark_output("state", after.value());
    const Schedule schedule = eager_schedule(graph);
    EagerExecutor executor(graph, schedule, device);
    KernelChecker checker(device, 7);
    executor.set_observer(&checker);
    InterpreterInputs inputs{{"state", each.before}, {"norm", {1}}};
    testing::upload(device, executor.input("state"), inputs["state"]);
    for (const double value : each.norms) {
      inputs["norm"] = {value};
      testing::upload(device, executor.input("norm"), inputs["norm"]);
      executor.run_all();
      inputs["state"] = interpret(graph, inputs)[graph.index(after.value())];
      EXPECT_EQ(testing::elements(device, executor.output("state")), inputs["state"]);
    }
    EXPECT_EQ(inputs["state"], each.state) << each.norms.size() << " norms";
    EXPECT_TRUE(checker.wrong().empty());
  }
}

TEST(LossScale, HalvesAfterASkippedStepAndDoublesAfterGoodOnes) {
  CpuDevice device({.threads = 1});
  expect_the_scale_to_follow(device);
}
TEST(LossScale, HalvesAfterASkippedStepAndDoublesAfterGoodOnesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_the_scale_to_follow(device);
}

}  // namespace
}  // namespace ridgeline

#include "compile/executable.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/test_support.h"
#include "models/attention.h"
#include "runtime/cpu_device.h"
#include "support/models.h"
#include "support/run_eager.h"
#include "support/tiny_transformer.h"

namespace ridgeline {
namespace {

const AttentionConfig kProblem{.batch_size = 2, .heads = 1, .seq_len = 9, .head_dim = 4};

Trace attention() {
  return [](const Rewrite& forward) {
    return attention_training_graph(kProblem, AttentionForm::plain, forward);
  };
}

std::vector<double> drawn(int64_t count, int seed) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(std::sin(1.3 * i + seed));
  return values;
}

constexpr int64_t kElements = 2 * 9 * 4;
constexpr const char* kInputs[] = {"q", "k", "v", "d_output"};
constexpr const char* kOutputs[] = {"output", "d_q", "d_k", "d_v"};

std::map<std::string, std::vector<double>> results_of(Executable& executable, Device& device) {
  int seed = 0;
  for (const char* name : kInputs)
    testing::upload(device, executable.input(name), drawn(kElements, seed++));
  executable.run();
  std::map<std::string, std::vector<double>> results;
  for (const char* name : kOutputs)
    results[name] = testing::elements(device, executable.output(name));
  return results;
}

TEST(Executable, EveryRungOfTheLadderComputesTheSame) {
  CpuDevice device({.threads = 1});
  std::map<std::string, std::vector<double>> vanilla;
  for (const ModeInfo& mode : modes()) {
    Executable executable(attention(), device, {.mode = mode.mode});
    executable.prepare();
    EXPECT_EQ(executable.fallback(), "");
    EXPECT_EQ(executable.plan() != nullptr, mode.fuse);
    const auto results = results_of(executable, device);
    if (mode.mode == Mode::vanilla) vanilla = results;
    for (const auto& [name, values] : results)
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], vanilla.at(name)[i], 1e-5) << mode.name << " " << name;
  }
}

TEST(Executable, EachRungTakesNoMoreLaunchesAndMemoryThanTheOneBelow) {
  CpuDevice device({.threads = 1});
  int64_t launches = INT64_MAX;
  Bytes peak{INT64_MAX};
  const ModelWorkload model{testing::tiny_transformer(), ModelPrecision::fp32};
  for (const ModeInfo& mode : modes()) {
    ModelWorkload workload = model;
    workload.mode = mode.mode;
    const Executable executable = testing::model_executable(workload, Scenario::full_step, device);
    EXPECT_LE(executable.launches(), launches) << mode.name;
    EXPECT_LE(executable.predicted_peak(), peak) << mode.name;
    launches = executable.launches();
    peak = executable.predicted_peak();
  }
}

// Memory of the caller: nothing is copied, and the executable takes none for it.
TEST(Executable, TensorsOfTheCallerAreReadAndWrittenWhereTheyAre) {
  for (const ModeInfo& mode : modes()) {
    CpuDevice device({.threads = 1});
    Executable own(attention(), device, {.mode = mode.mode});
    own.prepare();
    const auto expected = results_of(own, device);
    own.release();

    device.ledger().start_over();
    Executable executable(attention(), device, {.mode = mode.mode});
    std::map<std::string, std::vector<float>> memory;
    Bindings bindings;
    for (const std::span<const char* const> names : {std::span(kInputs), std::span(kOutputs)})
      for (const char* name : names) {
        memory[name].resize(kElements);
        bindings[name] = memory[name].data();
      }
    if (!mode.flash) {  // the formula transposes k, and so its gradient comes transposed
      EXPECT_ERROR(executable.prepare(bindings), ErrorKind::usage, "'d_k' is a view");
      bindings.erase("d_k");
    }
    executable.prepare(bindings);
    EXPECT_LE(device.ledger().live(),
              executable.predicted_peak() - Bytes{4 * kElements * sizeof(float)});
    const auto results = results_of(executable, device);
    EXPECT_EQ(results, expected) << mode.name;
    for (const char* name : kOutputs) {
      if (!bindings.contains(name)) continue;
      EXPECT_EQ(executable.output(name).data, memory[name].data()) << mode.name << " " << name;
      EXPECT_EQ(memory[name][5], static_cast<float>(expected.at(name)[5]));
    }
    EXPECT_ERROR(executable.prepare({{"no_such_tensor", memory["q"].data()}}), ErrorKind::usage,
                 "no tensor 'no_such_tensor'");
  }
}

TEST(Executable, WithoutACompilerItRunsEagerlyAndTellsIt) {
  CpuDevice poor({.threads = 1, .compiler = {.cache_dir = "off", .compiler = "/no/such/compiler"}});
  CpuDevice device({.threads = 1});
  std::string told;
  Executable executable(
      attention(), poor,
      {.mode = Mode::fused, .message = [&](const std::string& text) { told = text; }});
  executable.prepare();
  EXPECT_HAS(executable.fallback(), "no C++ compiler");
  EXPECT_HAS(told, "falls back to eager");
  EXPECT_EQ(executable.plan(), nullptr);
  Executable eager(attention(), device);
  eager.prepare();
  const auto expected = results_of(eager, device);
  for (const auto& [name, values] : results_of(executable, poor))
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected.at(name)[i], 1e-5);
}

TEST(Executable, WhatRunsEagerlyHasNoPlanToExplain) {
  CpuDevice device({.threads = 1});
  EXPECT_ERROR(Executable(attention(), device).explain(), ErrorKind::usage, "no plan");
}

}  // namespace
}  // namespace ridgeline

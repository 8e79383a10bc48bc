// A training step that does not fit is planned so that it does, and computes the same.
#include "plan/recompute.h"

#include <gtest/gtest.h>

#include "passes/same_values.h"
#include "runtime/compiled_support.h"
#include "support/models.h"

namespace ridgeline::model_study_test {
namespace {

using testing::elements;
using testing::random_inputs;
using testing::Results;
using testing::upload;

const PlanOptions kOptions{.early_updates = true};

Lowered step_of(ModelPrecision precision) {
  return testing::lowered_model({{.name = "tiny",
                                  .d_model = 32,
                                  .d_ff = 96,
                                  .layers = 3,
                                  .heads = 2,
                                  .vocabulary = 40,
                                  .batch_size = 2,
                                  .context_length = 48},
                                 precision,
                                 Mode::compiled},
                                Scenario::full_step);
}

InterpreterInputs inputs_of(const Graph& graph) {
  InterpreterInputs inputs = random_inputs(graph, 3, 40);
  for (Value value : graph.inputs())
    if (graph.input_info(value).role == Role::second_moment)
      for (double& each : inputs[graph.name(value)]) each *= each;
  inputs["optimizer.scalars"] = {1e-3, 0.1, 1e-3};
  return inputs;
}

Results run(const Graph& graph, const Plan& plan, const InterpreterInputs& inputs) {
  CpuDevice device({.threads = 2});
  CompiledExecutor executor(graph, plan, device);
  for (const auto& [name, values] : inputs) upload(device, executor.input(name), values);
  executor.set_poison(true);
  executor.run_all();
  Results outputs;
  for (const Output& output : graph.outputs())
    outputs[output.name] = elements(device, executor.output(output.name));
  return outputs;
}

TEST(Recompute, FitsAndChangesNoBit) {
  for (ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
    const Graph graph = step_of(precision).graph;
    const Plan whole = make_plan(graph, kOptions);
    const Bytes budget = whole.inputs + Bytes{whole.arena.count * 4 / 5};
    const FittedPlan fitted = plan_within(graph, kOptions, budget);
    ASSERT_TRUE(fitted.graph);
    EXPECT_GT(fitted.recomputed, 0u);
    EXPECT_LE(fitted.plan.peak(), budget) << explain(*fitted.graph, fitted.plan);
    const InterpreterInputs inputs = inputs_of(graph);
    const Results expected = run(graph, whole, inputs);
    for (double value : expected.at("layers.1.ffn.w1.weight")) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(run(*fitted.graph, fitted.plan, inputs), expected);
  }
}

TEST(Recompute, DoesNotMoreThanTheBudgetAsksFor) {
  const Graph graph = step_of(ModelPrecision::fp32).graph;
  const Plan whole = make_plan(graph, kOptions);
  EXPECT_FALSE(plan_within(graph, kOptions, whole.peak()).graph);
  size_t before = 0;
  for (const int percent : {97, 90, 80}) {
    const Bytes budget = whole.inputs + Bytes{whole.arena.count * percent / 100};
    const FittedPlan fitted = plan_within(graph, kOptions, budget);
    EXPECT_GE(fitted.recomputed, before) << percent;
    before = fitted.recomputed;
  }
  EXPECT_GT(before, 0u);
}

TEST(Recompute, WhatCannotFitIsPlannedAsSmallAsItGoes) {
  const Graph graph = step_of(ModelPrecision::mixed).graph;
  const Plan whole = make_plan(graph, kOptions);
  const FittedPlan fitted = plan_within(graph, kOptions, Bytes{1});
  EXPECT_LT(fitted.plan.peak(), whole.peak());
}

}  // namespace
}  // namespace ridgeline::model_study_test

// All passes in the order in which the compiler applies them.
#include <gtest/gtest.h>

#include "autodiff/gradient.h"
#include "models/adamw.h"
#include "passes/autocast.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/same_values.h"
#include "passes/simplify.h"
#include "passes/small_transformer.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

using testing::expect_same_values;
using testing::kTiny;
using testing::random_inputs;

// Appends gradients and an optimizer's step to a forward graph with a loss.
Graph trained(Graph graph) {
  graph.begin_stage("backward");
  const Tensor loss(graph, testing::output_of(graph, "loss"));
  const Cotangent cotangent{loss, expand(scalar(loss, 1), loss.shape())};
  std::vector<Tensor> weights;
  const std::vector<Parameter> parameters = transformer_parameters(kTiny);
  for (const Parameter& parameter : parameters)
    weights.push_back(testing::input_of(graph, parameter.name));
  const std::vector<Tensor> gradients = gradient({&cotangent, 1}, weights);
  graph.begin_stage("optimizer");
  std::vector<TrainedParameter> steps;
  for (size_t i = 0; i < weights.size(); ++i)
    steps.push_back({parameters[i].name, weights[i], gradients[i]});
  add_adamw_step(graph, steps, {});
  verify(graph);
  return graph;
}

// Moments are squares, and corrections lie below one.
InterpreterInputs step_inputs(const Graph& graph) {
  InterpreterInputs inputs = random_inputs(graph, 8, kTiny.vocabulary);
  for (auto& [name, values] : inputs)
    if (!name.ends_with("weight"))
      for (double& value : values)
        if (value != std::trunc(value)) value = std::min(0.9, 0.1 + std::abs(value));
  return inputs;
}

TEST(Passes, ATrainingStepStaysTheSameThroughAllPasses) {
  const Graph plain = trained(testing::forward_with_loss(kTiny, AttentionForm::plain));
  for (bool mixed : {false, true}) {
    const Graph forward = testing::forward_with_loss(kTiny, AttentionForm::plain);
    const Graph whole = trained(flash(mixed ? autocast(forward) : forward));
    const Graph after = simplify(decompose(whole));
    EXPECT_EQ(testing::count_of(after, Op::attention_gradient), kTiny.layers);
    EXPECT_EQ(after.stages().size(), 3u);
    EXPECT_EQ(after.inputs().size(), plain.inputs().size());
    expect_same_values(plain, after, step_inputs(plain), 1e-6);
  }
}

// Kernels, not only the interpreter, agree on what the passes made of a graph.
TEST(Passes, RewrittenRandomGraphsRunOnTheCpuAsBefore) {
  CpuDevice device({.threads = 1});
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const testing::RandomGraph random = testing::RandomGraphMaker(seed).make(20);
    const auto before = testing::run_eager(random.graph, random.inputs, device);
    const auto after = testing::run_eager(simplify(decompose(random.graph)), random.inputs, device);
    for (const auto& [name, expected] : before) {
      double size = 1e-2;
      for (double value : expected) size = std::max(size, std::abs(value));
      for (size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(expected[i], after.at(name)[i], 1e-4 * size)
            << name << " of seed " << seed << "\n"
            << to_text(random.graph);
    }
  }
}

}  // namespace
}  // namespace ridgeline

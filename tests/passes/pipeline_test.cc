// All passes in the order in which the compiler applies them.
#include <gtest/gtest.h>

#include "passes/decompose.h"
#include "passes/same_values.h"
#include "passes/simplify.h"
#include "passes/small_transformer.h"
#include "support/models.h"
#include "support/random_graph.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

using testing::kTiny;

Graph step_graph(ModelPrecision precision, Mode mode) {
  return testing::lowered_model({.config = kTiny, .precision = precision, .mode = mode},
                                Scenario::full_step)
      .graph;
}

// Second moments are squares, and corrections lie below one.
InterpreterInputs step_inputs(const Graph& graph) {
  InterpreterInputs inputs = testing::random_inputs(graph, 8, kTiny.vocabulary);
  for (Value value : graph.inputs()) {
    const auto& [name, role, parts, ranks] = graph.input_info(value);
    if (role == Role::second_moment || role == Role::step_scalars)
      for (double& each : inputs[name]) each = std::min(0.9, 0.1 + std::abs(each));
  }
  return inputs;
}

// For a graph in which several weights are one input, and weights have copies.
InterpreterInputs inputs_of_lowered(const Graph& graph, const InterpreterInputs& inputs) {
  InterpreterInputs result;
  for (Value value : graph.inputs()) {
    const auto& [whole, role, parts, ranks] = graph.input_info(value);
    if (parts.empty()) result[whole] = inputs.at(whole);
    for (const InputPart& part : parts) {
      const Role source = role == Role::copy ? Role::parameter : role;
      const std::vector<double>& values = inputs.at(tensor_name(source, part.parameter));
      result[whole].insert(result[whole].end(), values.begin(), values.end());
    }
  }
  return result;
}

TEST(Passes, ATrainingStepStaysTheSameThroughAllPasses) {
  const Graph plain = step_graph(ModelPrecision::fp32, Mode::vanilla);
  const InterpreterInputs inputs = step_inputs(plain);
  const auto expected = interpret(plain, inputs);
  for (ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
    const Graph after = step_graph(precision, Mode::compiled);
    EXPECT_EQ(testing::count_of(after, Op::attention_gradient), kTiny.layers);
    EXPECT_EQ(after.stages().size(), 3u);
    const auto got = interpret(after, inputs_of_lowered(after, inputs));
    ASSERT_EQ(after.outputs().size(), plain.outputs().size());
    for (const Output& output : plain.outputs()) {
      const auto& was = expected[plain.index(output.value)];
      const auto& is = got[after.index(testing::output_of(after, output.name))];
      ASSERT_EQ(was.size(), is.size()) << output.name;
      for (size_t i = 0; i < was.size(); ++i)
        ASSERT_NEAR(was[i], is[i], 1e-6) << output.name << " at " << i;
    }
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

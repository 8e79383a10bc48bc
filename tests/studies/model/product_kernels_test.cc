// Which products of a training step go into the kernels behind them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "compile/lower.h"
#include "plan/plan.h"
#include "studies/model/program.h"
#include "studies/step_workload.h"

namespace ridgeline {
namespace {

TEST(ProductKernels, OfAMixedStepAreThoseOfGatedUnits) {
  ModelWorkload model;
  model.config.layers = 2;
  model.config.batch_size = 2;
  model.config.context_length = 128;
  model.precision = ModelPrecision::mixed;
  const Lowered lowered = lower(step_trace({.of = model, .mode = Mode::compiled}, {}),
                                {.mode = Mode::compiled, .products = DType::bf16});
  const Plan plan = make_plan(
      lowered.graph,
      {.product_kernel = [](const Graph&, const std::vector<Layout>&,
                            const EpilogueOffer&) { return EpilogueDecision{.takes = true}; },
       .early_updates = true});
  std::vector<std::string> inside;
  for (const PlannedKernel& kernel : plan.kernels)
    if (kernel.group.kernel.product) inside.push_back(kernel.group.kernel.name);
  EXPECT_EQ(inside.size(), 4u) << explain(lowered.graph, plan);
}

}  // namespace
}  // namespace ridgeline

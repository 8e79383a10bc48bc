// The axes of the transformer study.
#include "studies/model/workload.h"

#include <gtest/gtest.h>

#include "cost/cost.h"
#include "measure/test_support.h"
#include "support/models.h"

namespace ridgeline::model_study_test {
namespace {

TransformerConfig tiny() {
  return {.name = "tiny",
          .d_model = 16,
          .d_ff = 24,
          .layers = 2,
          .heads = 2,
          .vocabulary = 40,
          .batch_size = 2,
          .context_length = 8};
}

TEST(ModelMatrix, ModesOfOneModelFollowEachOtherVanillaFirst) {
  const auto rows = expand_matrix({.sizes = {"small", "xl"},
                                   .context_lengths = {128, 512},
                                   .batch_size = 3,
                                   .precisions = {ModelPrecision::mixed},
                                   .modes = {Mode::compiled, Mode::vanilla}});
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(label(rows[0]), "small context=128 batch=3 mixed, vanilla");
  EXPECT_EQ(label(rows[1]), "small context=128 batch=3 mixed, compiled");
  EXPECT_EQ(label(rows[7]), "xl context=512 batch=3 mixed, compiled");
}

TEST(ModelMatrix, OverridesMakeACustomModel) {
  const auto rows = expand_matrix({.context_lengths = {16},
                                   .modes = {Mode::vanilla},
                                   .overrides = {.d_model = 32, .layers = 3, .heads = 4}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].config.name, "custom-small");
  EXPECT_EQ(rows[0].config.d_model, 32);
  EXPECT_EQ(rows[0].config.layers, 3);
  EXPECT_EQ(rows[0].config.d_ff, 3072) << "the rest stays";
  EXPECT_ERROR(expand_matrix({.overrides = {.heads = 7}}), ErrorKind::usage, "7 heads");
  const ModelOverrides all{.d_model = 32, .d_ff = 64, .layers = 3, .heads = 4, .vocabulary = 50};
  EXPECT_EQ(expand_matrix({.overrides = all})[0].config.name, "custom") << "nothing of small stays";
}

TEST(ModelNames, AreReadAndUnknownOnesRefused) {
  for (const ModeInfo& mode : modes()) EXPECT_EQ(parse_mode(mode.name), mode.mode);
  EXPECT_ERROR(kModelScenarios.find("fwd_bwd"), ErrorKind::usage, "fwd-bwd");
  EXPECT_ERROR(parse_mode("eager"), ErrorKind::usage, "vanilla, fused, flash, compiled");
  EXPECT_ERROR(kModelPrecisions.find("fp8"), ErrorKind::usage, "mixed");
}

// The convention counts the weights of norms as if they were multiplied by a matrix product.
TEST(ModelFlops, AreTheProductsOfTheGraph) {
  const TransformerConfig config = tiny();
  const Graph graph = testing::lowered_model({config}, Scenario::forward).graph;
  double macs = 0;
  for (const Cost& cost : node_costs(graph)) macs += cost.macs;
  const double tokens = 16, norms = 16 * 5;
  EXPECT_DOUBLE_EQ(model_forward_flops(config), 2 * macs + 2 * norms * tokens);
}

TEST(ModelGraph, EveryProductRunsInTheDtypeOfItsPrecision) {
  for (const ModelPrecisionInfo& precision : kModelPrecisions)
    for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
      const Graph graph =
          testing::lowered_model({tiny(), precision.precision, mode}, Scenario::full_step).graph;
      int products = 0;
      for (const Node& node : graph.nodes())
        if (node.op == Op::matmul || node.op == Op::attention) {
          ++products;
          EXPECT_EQ(node.outputs[0].dtype, precision.products)
              << precision.name << " " << node.name;
        }
      // Compiled: one product for q, k and v, and one for the two gates.
      EXPECT_GE(products, mode == Mode::vanilla ? 3 * 15 : 3 * 9);
    }
}

TEST(ModelGraph, CompiledModelsHaveFlashAttentionAndVanillaOnesPlain) {
  for (const ModelPrecisionInfo& precision : kModelPrecisions) {
    const Lowered compiled =
        testing::lowered_model({tiny(), precision.precision, Mode::compiled}, Scenario::full_step);
    EXPECT_EQ(compiled.flash.found.size(), 2u) << precision.name;
    EXPECT_TRUE(compiled.flash.refusals.empty());
    const Lowered vanilla =
        testing::lowered_model({tiny(), precision.precision, Mode::vanilla}, Scenario::full_step);
    EXPECT_EQ(vanilla.flash.found.size(), 0u);
    for (const Node& node : vanilla.graph.nodes()) EXPECT_NE(node.op, Op::attention);
  }
}

}  // namespace
}  // namespace ridgeline::model_study_test

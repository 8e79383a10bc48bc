#include "graph/scope.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"

namespace ridgeline {
namespace {

TEST(Scope, NodesBelongToTheGuardThatTheyAreAddedIn) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  Tensor inner, outer;
  {
    const ScopeGuard layer(graph, "layers.3");
    {
      const ScopeGuard norm(graph, kNormScope);
      inner = exp(x);
    }
    outer = log(x);
  }
  const Tensor after = sqrt(x);
  const auto scope = [&](const Tensor& of) { return graph.scope_path(graph.node(of.value())); };
  EXPECT_EQ(scope(inner), "layers.3.norm");
  EXPECT_EQ(scope(outer), "layers.3");
  EXPECT_EQ(scope(after), "");
}

TEST(Scope, TheSameNameInsideOfItselfAddsNothing) {
  Graph graph;
  const ScopeGuard outer(graph, "attention");
  const ScopeGuard inner(graph, "attention");
  EXPECT_EQ(graph.current_scope(), "attention");
}

TEST(Scope, ANodeThatIsThereKeepsItsScopeAndStaysOne) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  const Tensor first = exp(x);
  const ScopeGuard scope(graph, "later");
  EXPECT_EQ(exp(x).value(), first.value());
  EXPECT_EQ(graph.scope_path(graph.node(first.value())), "");
}

TEST(Scope, PathsAreTakenApartAtTheirDots) {
  EXPECT_EQ(scope_leaf("layers.3.attention.scores"), "scores");
  EXPECT_EQ(scope_leaf("loss"), "loss");
  EXPECT_EQ(common_scope("layers.3.attention.scores", "layers.3.attention.values"),
            "layers.3.attention");
  EXPECT_EQ(common_scope("layers.3", "layers.31"), "layers");
  EXPECT_EQ(common_scope("loss", "loss"), "loss");
  EXPECT_EQ(common_scope("loss", "optimizer"), "");
  EXPECT_EQ(layer_scope("layers.12.ffn"), "layers.12");
  EXPECT_EQ(layer_scope("lm_head"), "");
  EXPECT_EQ(scope_of_any_layer("layers.12.ffn"), "layers.*.ffn");
  EXPECT_EQ(scope_of_any_layer("layers.12"), "layers.*");
  EXPECT_EQ(scope_of_any_layer("loss"), "loss");
}

}  // namespace
}  // namespace ridgeline

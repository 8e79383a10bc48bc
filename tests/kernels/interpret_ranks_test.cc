// The oracle over several ranks.
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/tensor.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline::interpret_ranks_test {
namespace {

TEST(InterpretRanks, SumsScattersAndGathersUnevenBuffers) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  const Tensor sum = all_reduce(x, {3});
  const Tensor shard = reduce_scatter(x, {3});
  const Tensor whole = all_gather(shard, 4, {3});
  graph.mark_output("sum", sum.value());
  graph.mark_output("whole", whole.value());
  const auto values = interpret_ranks(
      graph, {{{"x", {1, 2, 3, 4}}}, {{"x", {10, 20, 30, 40}}}, {{"x", {100, 200, 300, 400}}}});
  for (const auto& of_rank : values) {
    EXPECT_EQ(of_rank[graph.index(sum.value())], (std::vector<double>{111, 222, 333, 444}));
    EXPECT_EQ(of_rank[graph.index(whole.value())], (std::vector<double>{111, 222, 333, 444}));
  }
  EXPECT_EQ(values[0][graph.index(shard.value())], (std::vector<double>{111, 222}));
  EXPECT_EQ(values[1][graph.index(shard.value())], (std::vector<double>{333, 444}));
  EXPECT_EQ(values[2][graph.index(shard.value())], (std::vector<double>{0, 0})) << "an empty shard";
  EXPECT_THROW(interpret(graph, {{"x", {1, 2, 3, 4}}}), Error) << "one rank of three";
}

}  // namespace
}  // namespace ridgeline::interpret_ranks_test

#include "cost/product_paths.h"

#include <gtest/gtest.h>

#include "models/attention.h"

namespace ridgeline {
namespace {

TEST(ProductPaths, ProductsThatAreMadeAlikeAreOnePart) {
  const Graph graph = attention_training_graph(
      {.batch_size = 2, .heads = 1, .seq_len = 64, .head_dim = 32}, AttentionForm::plain);
  int number = 0;
  const auto alternate = [&](Op, DType) { return ProductPath{DType::f16, 1 + 2 * (number++ % 2)}; };
  const std::vector<PathMacs> paths = product_paths(graph, graph.stages()[1], alternate);
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0].macs, paths[1].macs);
}

}  // namespace
}  // namespace ridgeline

// What the oracle makes of a kernel with a product inside.
#include <gtest/gtest.h>

#include <cmath>

#include "base/float16.h"
#include "graph/tensor.h"
#include "kernels/reference/fused_elements.h"
#include "plan/plan.h"

namespace ridgeline {
namespace {

// A product that a kernel computes itself, beside the graph's own nodes in fp64.
TEST(FusedElements, SeeTheSumsOfAProduct) {
  Graph graph;
  const int64_t rows = 128, width = 24, depth = 128;
  const Tensor x = input(graph, "x", {DType::bf16, {rows, depth}});
  const Tensor w = input(graph, "w", {DType::bf16, {2 * width, depth}});
  const Tensor product = matmul(x, transpose(w));
  const Tensor y = silu(cast(slice(product, 1, 0, width), DType::f32)) *
                   cast(slice(product, 1, width, 2 * width), DType::f32);
  graph.mark_output("y", cast(y, DType::bf16).value());
  const Plan plan = make_plan(
      graph, {.product_kernel = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
        return EpilogueDecision{.takes = true};
      }});
  ASSERT_EQ(plan.kernels.size(), 1u);
  const FusedKernel& kernel = plan.kernels[0].group.kernel;
  ASSERT_TRUE(kernel.product);
  const auto value = [](size_t matrix, int64_t offset) {
    return 0.0625 * static_cast<double>((offset * 7 + static_cast<int64_t>(matrix) * 3) % 9 - 4);
  };
  const size_t left = kernel.inputs.size();
  FusedElements elements(kernel, [&](size_t input, int64_t offset) {
    EXPECT_GE(input, left) << "a sum was read from memory";
    return value(input - left, offset);
  });
  for (const Dims& at : {Dims{0, 0}, Dims{5, 23}, Dims{127, 7}}) {
    double sums[2] = {};
    for (int half = 0; half < 2; ++half)
      for (int64_t k = 0; k < depth; ++k)
        sums[half] += value(0, at[0] * depth + k) * value(1, (half * width + at[1]) * depth + k);
    const auto stored = [](double z) {
      return static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(z))));
    };
    const double gate = stored(sums[0]), up = stored(sums[1]);
    const double expected = gate / (1 + std::exp(-gate)) * up;
    const Bounded got = elements.at(0, at);
    EXPECT_NEAR(got.value, expected, 0.01 * (1 + std::abs(expected)));
    EXPECT_LE(got.error, 0.02 * (1 + std::abs(expected)));
  }
  EXPECT_GE(elements.work(), 2 * depth);
}

}  // namespace
}  // namespace ridgeline

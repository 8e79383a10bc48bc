// Products large enough to be cut among threads, by rows, by columns or both.
#include <gtest/gtest.h>

#include <random>

#include "graph/tensor.h"
#include "support/run_eager.h"

namespace ridgeline::cpu_matmul_test {
namespace {

struct RandomProduct {
  int64_t batch, m, n, k;
  bool left_transposed, right_transposed;
};

// Whole numbers so small that every sum is exact, in 16 bits too: no tolerance hides a wrong piece.
std::vector<double> small_numbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = random() % 8 == 0 ? static_cast<double>(random() % 3) : 0;
  return numbers;
}

void expect_exact(const RandomProduct& product, DType dtype, Device& device, uint64_t seed) {
  const auto& [batch, m, n, k, left_transposed, right_transposed] = product;
  Graph graph;
  const Shape left = left_transposed ? Shape{batch, k, m} : Shape{batch, m, k};
  const Shape right = right_transposed ? Shape{batch, n, k} : Shape{batch, k, n};
  const Tensor a = input(graph, "a", {dtype, left});
  const Tensor b = input(graph, "b", {dtype, right});
  graph.mark_output(
      "c", matmul(left_transposed ? transpose(a) : a, right_transposed ? transpose(b) : b).value());
  const InterpreterInputs inputs{{"a", small_numbers(batch * m * k, seed)},
                                 {"b", small_numbers(batch * k * n, seed + 1)}};
  const std::vector<double> got = testing::run_eager(graph, inputs, device).at("c");
  const std::vector<double>& x = inputs.at("a");
  const std::vector<double>& y = inputs.at("b");
  for (int64_t item = 0; item < batch; ++item)
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum +=
              x[static_cast<size_t>(item * m * k + (left_transposed ? i * m + row : row * k + i))] *
              y[static_cast<size_t>(item * k * n +
                                    (right_transposed ? column * k + i : i * n + column))];
        ASSERT_EQ(got[static_cast<size_t>((item * m + row) * n + column)], sum)
            << "batch " << item << ", row " << row << ", column " << column << " of " << batch
            << " x " << m << " x " << n << " x " << k << ", seed " << seed;
      }
}

TEST(CpuMatmul, PiecesOfAnyCutMakeTheWholeProduct) {
  for (int threads : {1, 2, 3, 8}) {
    CpuDevice device({.threads = threads});
    std::mt19937_64 random(static_cast<uint64_t>(threads));
    const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    for (uint64_t seed = 0; seed < 24; ++seed) {
      const bool tall = seed % 3 == 0, wide = seed % 3 == 1;
      const RandomProduct product{.batch = up_to(3),
                                  .m = up_to(tall ? 1200 : 300),
                                  .n = up_to(wide ? 1200 : 300),
                                  .k = up_to(seed % 6 == 5 ? 1200 : 12),
                                  .left_transposed = random() % 2 == 0,
                                  .right_transposed = random() % 2 == 0};
      expect_exact(product, seed % 4 == 3 ? DType::bf16 : DType::f32, device, seed);
    }
  }
}

}  // namespace
}  // namespace ridgeline::cpu_matmul_test

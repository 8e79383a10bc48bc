// Products of a few rows by the rows of a matrix: the kernel's ways against sums in fp64, and
// whether what they read early is what nobody writes.
#include "kernels/cuda/matmul/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/float16.h"
#include "compile/executable.h"
#include "graph/tensor.h"
#include "support/gpu.h"

namespace ridgeline::few_rows_test {
namespace {

CudaFacts hopper() {
  return {.compute_capability = 90, .multiprocessors = 132};
}

FewRowsProduct product_of(int64_t tokens, int64_t rows, int64_t columns) {
  return {.x_stride = columns,
          .w_stride = columns,
          .out_stride = rows,
          .tokens = tokens,
          .rows = rows,
          .columns = columns};
}

TEST(FewRows, ServesWhatItsAccessesFit) {
  EXPECT_FALSE(plan_few_rows(product_of(1, 2560, 2048), hopper()).empty());
  EXPECT_FALSE(plan_few_rows(product_of(16, 2560, 2048), hopper()).empty());
  EXPECT_FALSE(plan_few_rows(product_of(64, 2560, 2048), hopper()).empty());
  EXPECT_TRUE(plan_few_rows(product_of(65, 2560, 2048), hopper()).empty());
  EXPECT_TRUE(plan_few_rows(product_of(1, 2560, 2040), hopper()).empty());
  EXPECT_TRUE(plan_few_rows(product_of(1, 2560, 2048), {.compute_capability = 80}).empty());
  FewRowsProduct shifted = product_of(1, 2560, 2048);
  shifted.w = reinterpret_cast<const void*>(8);
  EXPECT_TRUE(plan_few_rows(shifted, hopper()).empty());
  shifted = product_of(1, 2560, 2048);
  shifted.x_stride = 2052;
  EXPECT_TRUE(plan_few_rows(shifted, hopper()).empty());
}

TEST(FewRows, BlocksFillTheGpuOnceOrSo) {
  for (const int64_t rows : {1, 31, 640, 1152, 4096, 20480, 262144})
    for (const CudaLaunch& way : plan_few_rows(product_of(1, rows, 640), hopper())) {
      EXPECT_GE(way.grid[0] * 32, rows);
      EXPECT_EQ(way.grid[1], 1u);
      EXPECT_LE(way.grid[0], rows <= 20480 ? 640u : 8192u) << rows;
    }
}

// x [tokens, columns] times w [rows, columns], transposed; w is read as it lies or, with `writes`,
// after a kernel of the graph has written to it.
TEST(FewRows, EveryWayAgreesWithSumsInFp64OnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (device.cuda_facts().compute_capability < 90) GTEST_SKIP() << "needs clusters of blocks";
  std::mt19937 random(7);
  for (int round = 0; round < 24; ++round) {
    const int64_t most = round % 4 == 0 ? 64 : 16;  // several blocks share rows of w from 33 on
    const int64_t tokens = 1 + random() % most, rows = 1 + random() % 1500,
                  columns = 32 * (1 + random() % 60);
    const DType dtype = round % 3 == 0 ? DType::f16 : DType::bf16;
    const auto encode = [&](float x) {
      return dtype == DType::bf16 ? float_to_bf16(x) : float_to_f16(x);
    };
    const auto decode = [&](uint16_t x) {
      return dtype == DType::bf16 ? bf16_to_float(x) : f16_to_float(x);
    };
    std::vector<uint16_t> x(static_cast<size_t>(tokens * columns)),
        w(static_cast<size_t>(rows * columns)), out(static_cast<size_t>(tokens * rows));
    std::normal_distribution<float> normal;
    for (uint16_t& each : x) each = encode(normal(random));
    for (uint16_t& each : w) each = encode(normal(random));
    const auto on_device = [&](const std::vector<uint16_t>& values, Shape shape, Allocation& into) {
      into = device.ledger().allocate(byte_size({dtype, shape}), "operand");
      const TensorView view{into.data(), dtype, shape, contiguous_strides(shape)};
      device.upload(view, values.data());
      return view;
    };
    Allocation memory[3];
    FewRowsProduct product = product_of(tokens, rows, columns);
    product.dtype = dtype;
    product.weights_are_kept = round % 2 == 0;
    product.x = on_device(x, {tokens, columns}, memory[0]).data;
    product.w = on_device(w, {rows, columns}, memory[1]).data;
    const std::vector<uint16_t> before(out.size(), encode(77));
    const TensorView result = on_device(before, {tokens, rows}, memory[2]);
    product.out = result.data;
    std::vector<double> exact(out.size());
    for (int64_t token = 0; token < tokens; ++token)
      for (int64_t row = 0; row < rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < columns; ++k)
          sum += static_cast<double>(decode(x[static_cast<size_t>(token * columns + k)])) *
                 decode(w[static_cast<size_t>(row * columns + k)]);
        exact[static_cast<size_t>(token * rows + row)] = sum;
      }
    const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    for (const CudaLaunch& way : plan_few_rows(product, hopper())) {
      device.upload(result, before.data());
      device.launch(way);
      device.download(result, out.data());
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(decode(out[i]), exact[i],
                    std::abs(exact[i]) * rounding + 1e-4 * std::sqrt(static_cast<double>(columns)))
            << "round " << round << " way of " << way.grid[0] << " blocks, element " << i;
    }
  }
}

// A graph may write the matrix just before it is read: then nothing of it is read early.
TEST(FewRows, ReadsWhatTheKernelBeforeHasWrittenOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const int64_t rows = 4096, columns = 1024;
  const auto build = [&](const Rewrite& rewrite) {
    Graph graph;
    const Tensor x = input(graph, "x", {DType::bf16, {1, columns}});
    const Tensor w = input(graph, "w", {DType::bf16, {rows, columns}});
    const Tensor read = matmul(x, transpose(w));                    // of what was bound
    const Tensor computed = matmul(x, transpose((w * 2.0) + 1.0));  // of what a kernel wrote
    graph.mark_output("read", read.value());
    graph.mark_output("computed", computed.value());
    return rewrite ? rewrite(graph) : graph;
  };
  Executable executable(build, device, {.mode = Mode::compiled});
  executable.prepare();
  const std::vector<uint16_t> ones(static_cast<size_t>(rows * columns), float_to_bf16(1));
  device.upload(executable.input("x"), ones.data());
  for (int run = 0; run < 20; ++run) {
    const float value = static_cast<float>(1 + run % 3);
    const std::vector<uint16_t> weights(ones.size(), float_to_bf16(value));
    device.upload(executable.input("w"), weights.data());
    executable.run();
    for (const auto& [name, expected] :
         {std::pair{"read", value}, std::pair{"computed", 2 * value + 1}}) {
      std::vector<uint16_t> out(static_cast<size_t>(rows));
      device.download(executable.output(name), out.data());
      for (const uint16_t each : out) ASSERT_EQ(bf16_to_float(each), expected * columns) << name;
    }
  }
}

}  // namespace
}  // namespace ridgeline::few_rows_test

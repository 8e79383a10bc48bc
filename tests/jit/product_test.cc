// Compiles kernels with a product inside for a GPU that need not be here.
#include "kernels/cuda/matmul/product.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"
#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "plan/plan.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

const CudaFacts kLargeGpu{.name = "an H200",
                          .compute_capability = 90,
                          .multiprocessors = 132,
                          .shared_bytes_per_block = 232448};
const PlanOptions kMultiplyInside = {
    .product_kernel = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
      return EpilogueDecision{.takes = true};
    }};
constexpr int64_t kTokens = 2048, kModel = 768, kWidth = 3072;

Tensor wide(const Tensor& x) {
  return cast(x, DType::f32);
}

// A gated unit forward, whose product is kept, or backward, of operands that lie as a step has
// them.
Graph gated_unit(DType dtype, bool backward) {
  Graph graph;
  if (!backward) {
    const Tensor x = input(graph, "x", {dtype, {kTokens, kModel}});
    const Tensor product = matmul(x, transpose(input(graph, "w", {dtype, {2 * kWidth, kModel}})));
    graph.mark_output("product", product.value());
    const Tensor h =
        silu(wide(slice(product, 1, 0, kWidth))) * wide(slice(product, 1, kWidth, 2 * kWidth));
    graph.mark_output("h", cast(h, dtype).value());
    return graph;
  }
  const Tensor d_y = input(graph, "d_y", {dtype, {kTokens, kModel}});
  const Tensor product = input(graph, "product", {dtype, {kTokens, 2 * kWidth}});
  const Tensor d_h = wide(matmul(d_y, input(graph, "w", {dtype, {kModel, kWidth}})));
  const Tensor gate = wide(slice(product, 1, 0, kWidth));
  const Tensor up = wide(slice(product, 1, kWidth, 2 * kWidth));
  graph.mark_output("d_up", cast(d_h * silu(gate), dtype).value());
  graph.mark_output("d_gate", cast(silu_gradient(gate, d_h * up), dtype).value());
  return graph;
}

TEST(ProductKernels, CompileWithoutSpills) {
  if (nvrtc_version().empty()) GTEST_SKIP() << "NVRTC is not installed";
  std::vector<CudaKernel> kernels;
  for (DType dtype : {DType::bf16, DType::f16})
    for (bool backward : {false, true}) {
      const Graph graph = gated_unit(dtype, backward);
      const Plan plan = make_plan(graph, kMultiplyInside);
      ASSERT_EQ(plan.kernels.size(), 1u) << explain(graph, plan);
      ASSERT_TRUE(plan.kernels[0].group.kernel.product);
      kernels.push_back(CudaProductKernel(plan.kernels[0].group.kernel, kLargeGpu).kernel());
    }
  const CudaJit jit({.arch = "sm_90a", .cache_dir = "off"});
  const std::vector<MachineCode> codes = jit.machine_codes(kernels);
  for (size_t i = 0; i < codes.size(); ++i) {
    const KernelResources resources = kernel_resources(codes[i].log);
    EXPECT_GT(resources.registers, 0) << codes[i].log;
    EXPECT_EQ(resources.spill_bytes, 0) << kernels[i].text;
    EXPECT_LACKS(codes[i].log, "serialized");
  }
}

TEST(ProductKernels, AreForHopperOnly) {
  const Graph graph = gated_unit(DType::bf16, false);
  const Plan plan = make_plan(graph, kMultiplyInside);
  CudaFacts older = kLargeGpu;
  older.compute_capability = 80;
  EXPECT_FALSE(has_product_kernels(older));
  EXPECT_THROW(CudaProductKernel(plan.kernels[0].group.kernel, older), Error);
}

}  // namespace
}  // namespace ridgeline

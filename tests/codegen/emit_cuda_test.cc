// Generated CUDA, compiled for a GPU that need not be here.
#include <gtest/gtest.h>

#include <algorithm>

#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "kernels/cuda/pointwise/fused.h"
#include "models/attention.h"
#include "plan/plan.h"
#include "support/expect.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

#define SKIP_WITHOUT_NVRTC()   \
  if (nvrtc_version().empty()) \
  GTEST_SKIP() << "NVRTC is not installed: " << cuda_library("nvrtc").how_to_get

void add_kernels(const Graph& graph, std::vector<CudaKernel>& kernels) {
  for (const PlannedKernel& planned : make_plan(graph).kernels) {
    if (planned.group.kind == GroupKind::library) continue;
    for (CudaKernel& kernel : CudaFusedKernel(planned.group.kernel).kernels())
      if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
        kernels.push_back(std::move(kernel));
  }
}

void expect_to_compile(const std::vector<CudaKernel>& kernels) {
  const CudaJit jit({.arch = "sm_90a", .cache_dir = "off"});
  const std::vector<MachineCode> codes = jit.machine_codes(kernels);
  for (size_t i = 0; i < codes.size(); ++i)
    EXPECT_EQ(kernel_resources(codes[i].log).spill_bytes, 0) << kernel_source(kernels[i]);
}

// One that does not would read what the kernel before it has not written yet.
TEST(EmitCuda, KernelsWaitForTheOneBeforeThem) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {512, 64}});
  graph.mark_output("rows", (x * rsqrt(mean(x * x, {-1}))).value());
  graph.mark_output("columns", sum(x * x, {0}).value());
  std::vector<CudaKernel> kernels;
  add_kernels(graph, kernels);
  for (uint64_t seed = 0; seed < 20; ++seed)
    add_kernels(testing::RandomGraphMaker(seed).make(10).graph, kernels);
  ASSERT_GT(kernels.size(), 20u);
  for (const CudaKernel& kernel : kernels)
    EXPECT_HAS(kernel.text, "Params p) {\n  wait_for_earlier_kernels();");
}

TEST(EmitCuda, KernelsOfRandomGraphsCompile) {
  SKIP_WITHOUT_NVRTC();
  std::vector<CudaKernel> kernels;
  for (uint64_t seed = 0; seed < 6; ++seed)
    add_kernels(testing::RandomGraphMaker(seed).make(14).graph, kernels);
  for (uint64_t seed = 100; seed < 106; ++seed)
    add_kernels(testing::RandomGraphMaker(seed, DType::bf16).make(6).graph, kernels);
  Graph of_a_constant;  // which is all that the kernel writes
  const Tensor x = input(of_a_constant, "x", {DType::f32, {1, 3}});
  of_a_constant.mark_output("y", matmul(x, sum(expand(scalar(x, 3), {3, 1}), {1})).value());
  add_kernels(of_a_constant, kernels);
  ASSERT_GT(kernels.size(), 10u);
  expect_to_compile(kernels);
}

// Rows of a warp, of a block, and too long for registers.
TEST(EmitCuda, RowsOfEveryWidthCompileWithoutSpills) {
  SKIP_WITHOUT_NVRTC();
  std::vector<CudaKernel> kernels;
  for (int64_t width : {7, 64, 768, 4096, 10000, 50257})
    for (DType dtype : {DType::f32, DType::bf16}) {
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, {512, width}});
      const Tensor w = input(graph, "w", {dtype, {width}});
      const Tensor weights = exp(x - max(x, {-1}));
      graph.mark_output("softmax", (weights / sum(weights, {-1})).value());
      graph.mark_output("norm", (x * rsqrt(mean(x * x, {-1}) + 1e-5) * w).value());
      graph.mark_output("d_w", sum(x * x * w, {0}).value());
      add_kernels(graph, kernels);
    }
  expect_to_compile(kernels);
}

TEST(EmitCuda, SixteenByteAccessesWhereOperandsLieTogether) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::bf16, {64, 4096}});
  const Tensor y = input(graph, "y", {DType::f32, {64, 4096}});
  graph.mark_output("narrow", (x * x).value());
  graph.mark_output("wide", sin(y).value());
  graph.mark_output("shifted", cos(slice(y, 1, 1, 4095)).value());
  std::vector<int> packs;
  for (const PlannedKernel& planned : make_plan(graph).kernels)
    packs.push_back(cuda_shape(planned.group.kernel).pack);
  std::sort(packs.begin(), packs.end());
  EXPECT_EQ(packs, (std::vector<int>{1, 4, 8}));
}

// Layers share kernels, and so do batches and lengths; rows too few to fill a GPU have one more
// form.
TEST(EmitCuda, TextsDependOnWidthsAndDtypesOnly) {
  const auto texts = [](int64_t batch, int64_t rows, double epsilon) {
    Graph graph;
    const Tensor x = input(graph, "x", {DType::bf16, {batch, rows, 768}});
    const Tensor wide = cast(x, DType::f32);
    const Tensor norm = wide * rsqrt(mean(wide * wide, {-1}) + epsilon);
    graph.mark_output("y", cast(norm, DType::bf16).value());
    std::vector<CudaKernel> kernels;
    add_kernels(graph, kernels);
    return kernels;
  };
  EXPECT_EQ(texts(4, 512, 1e-5), texts(2, 160, 1e-6));
  EXPECT_EQ(texts(1, 1, 1e-5), texts(2, 128, 1e-6));
  EXPECT_EQ(texts(4, 512, 1e-5).size(), 1u);
}

}  // namespace
}  // namespace ridgeline

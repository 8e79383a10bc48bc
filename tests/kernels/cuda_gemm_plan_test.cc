// Launches of the GEMM lab's CUDA kernels: every result has a thread, accesses fit their addresses.
#include "kernels/cuda/lab/gemm_plan.h"

#include <gtest/gtest.h>

#include "kernels/cuda/params.h"
#include "measure/test_support.h"

namespace ridgeline::cuda_gemm_plan_test {
namespace {

TensorView matrix(int64_t rows, int64_t columns, DType dtype = DType::f32,
                  uintptr_t address = 0x1000) {
  return {reinterpret_cast<void*>(address), dtype, {rows, columns}, {columns, 1}};
}

std::string constant(const CudaLaunch& launch, const std::string& name) {
  for (const auto& [key, value] : launch.kernel.constants)
    if (key == name) return value;
  return {};
}

GemmParams params(const CudaLaunch& launch) {
  GemmParams value{};
  std::memcpy(&value, launch.params.data(), sizeof value);
  return value;
}

TEST(CudaGemmPlan, BlocksCoverTheResult) {
  const CudaFacts facts{.multiprocessors = 132};
  for (int64_t m : {1, 16, 17, 127, 128, 129, 5000})
    for (int64_t n : {2, 16, 100, 128, 4097}) {
      for (CudaGemm which : {CudaGemm::naive, CudaGemm::tiled}) {
        const CudaLaunch launch =
            plan_gemm(which, matrix(m, 64), matrix(64, n), matrix(m, n), facts);
        const int64_t side = which == CudaGemm::naive ? 16 : std::stoll(constant(launch, "TILE"));
        const GemmParams p = params(launch);
        EXPECT_GE(p.blocks_across * side, n);
        EXPECT_LT((p.blocks_across - 1) * side, n);
        const int64_t down = launch.grid[0] / p.blocks_across;
        EXPECT_EQ(launch.grid[0] % p.blocks_across, 0u);
        EXPECT_GE(down * side, m);
        EXPECT_LT((down - 1) * side, m);
      }
    }
}

TEST(CudaGemmPlan, VectorsHaveKernelsOfTheirOwn) {
  const CudaFacts facts;
  for (int64_t m : {1, 8, 9, 256, 257, 5000}) {
    const CudaLaunch naive =
        plan_gemm(CudaGemm::naive, matrix(m, 64), matrix(64, 1), matrix(m, 1), facts);
    EXPECT_EQ(naive.kernel.entry, "gemv_naive");
    EXPECT_GE(naive.grid[0] * 256, m);
    const CudaLaunch tiled =
        plan_gemm(CudaGemm::tiled, matrix(m, 64), matrix(64, 1), matrix(m, 1), facts);
    EXPECT_EQ(tiled.kernel.entry, "gemv_tiled");
    EXPECT_GE(tiled.grid[0] * 8, m);
  }
}

TEST(CudaGemmPlan, AccessesAreAsWideAsRowsAndAddressesAllow) {
  const CudaFacts facts;
  const auto pack = [&](const TensorView& a, const TensorView& b) {
    const TensorView out = matrix(a.shape[0], b.shape[1], a.dtype);
    return constant(plan_gemm(CudaGemm::tiled, a, b, out, facts), "PACK");
  };
  EXPECT_EQ(pack(matrix(64, 64), matrix(64, 64)), "4");
  EXPECT_EQ(pack(matrix(64, 64, DType::bf16), matrix(64, 64, DType::bf16)), "8");
  EXPECT_EQ(pack(matrix(64, 62), matrix(62, 64)), "2");
  EXPECT_EQ(pack(matrix(64, 64), matrix(64, 63)), "1");
  EXPECT_EQ(pack(matrix(64, 64, DType::f32, 0x1004), matrix(64, 64)), "1");
  EXPECT_EQ(pack(matrix(64, 66), matrix(66, 1)), "2") << "a vector has one column";
}

TEST(CudaGemmPlan, Tf32IsTheLibrarys) {
  const TensorView x = matrix(8, 8, DType::tf32);
  EXPECT_ERROR(plan_gemm(CudaGemm::tiled, x, x, x, {}), ErrorKind::unsupported, "tensor cores");
}

TEST(CudaGemmPlan, StreamsCoverTheirArrays) {
  for (int64_t rows : {1, 1023, 1024, 1025, 1 << 20}) {
    const TensorView x = matrix(rows, 4);
    const CudaLaunch launch = plan_stream(x, nullptr, x, 3);
    EXPECT_GE(int64_t{launch.grid[0]} * 256 * 4, rows);
    EXPECT_LT((int64_t{launch.grid[0]} - 1) * 256 * 4, rows);
  }
}

}  // namespace
}  // namespace ridgeline::cuda_gemm_plan_test

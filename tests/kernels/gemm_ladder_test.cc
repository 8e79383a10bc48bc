// Every rung of the GEMM ladder against sums in fp64, over odd shapes, dtypes and instruction sets.
#include "kernels/cpu/gemm_ladder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/host_values.h"
#include "measure/test_support.h"

namespace ridgeline::gemm_ladder_test {
namespace {

struct Problem {
  Problem(int64_t m, int64_t n, int64_t k, DType type)
      : dtype(type), sizes{m, n, k}, a(store(m * k, "a")), b(store(k * n, "b")) {
    // All bits set reads as NaN: what a kernel leaves out shows.
    out.assign(static_cast<size_t>(m * n * info(dtype).size), '\xff');
  }

  std::vector<char> store(int64_t count, const char* name) const {
    NormalRandom random(7, name);
    std::vector<char> stored(static_cast<size_t>(count * info(dtype).size));
    for (int64_t i = 0; i < count; ++i)
      store_one(dtype, static_cast<float>(random.next()), stored.data(), i);
    return stored;
  }

  GemmOperands operands() {
    const auto [m, n, k] = sizes;
    return {.a = {a.data(), dtype, {m, k}, {k, 1}},
            .b = {b.data(), dtype, {k, n}, {n, 1}},
            .out = {out.data(), dtype, {m, n}, {n, 1}}};
  }

  void expect_right(const std::string& what) const {
    const auto [m, n, k] = sizes;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double exact = 0, magnitude = 0;
        for (int64_t step = 0; step < k; ++step) {
          const double product = double{load_one(dtype, a.data(), i * k + step)} *
                                 double{load_one(dtype, b.data(), step * n + j)};
          exact += product;
          magnitude += std::abs(product);
        }
        // The bound of any order of k roundings in fp32, and one of the result.
        const double bound = magnitude * static_cast<double>(k) * 0x1p-24 +
                             std::abs(exact) * info(dtype).epsilon + 1e-30;
        const double value = load_one(dtype, out.data(), i * n + j);
        ASSERT_LE(std::abs(value - exact), bound) << what << " at " << i << ", " << j;
      }
  }

  DType dtype;
  struct {
    int64_t m, n, k;
  } sizes;
  std::vector<char> a, b, out;
};

TEST(GemmLadder, EveryRungIsRightForOddShapesDtypesAndThreads) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (Isa isa : supported_isas())
      for (DType dtype : {DType::f32, DType::bf16, DType::f16})
        for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                         {1, 33, 7},
                                                                         {14, 32, 256},
                                                                         {15, 31, 257},
                                                                         {65, 130, 64},
                                                                         {90, 70, 513},
                                                                         {77, 1, 1030},
                                                                         {5, 1, 3}})
          for (GemmRung rung : {GemmRung::naive, GemmRung::tiled, GemmRung::simd}) {
            Problem problem(m, n, k, dtype);
            run_gemm(rung, problem.operands(), {.pool = pool, .isa = isa});
            problem.expect_right(std::string(name(isa)) + " " + std::string(info(dtype).name) +
                                 " rung " + std::to_string(static_cast<int>(rung)));
          }
  }
}

TEST(GemmLadder, MoreColumnsThanOneBlockOfPanels) {
  ThreadPool pool(2);
  for (DType dtype : {DType::f32, DType::bf16}) {
    Problem problem(17, 4100, 19, dtype);
    run_gemm(GemmRung::simd, problem.operands(), {.pool = pool, .isa = default_isa()});
    problem.expect_right("simd");
  }
}

TEST(GemmLadder, ACpuHasNoTf32) {
  ThreadPool pool(1);
  for (GemmRung rung : {GemmRung::naive, GemmRung::tiled, GemmRung::simd})
    for (int64_t n : {1, 4}) {
      Problem problem(4, n, 4, DType::tf32);
      EXPECT_ERROR(run_gemm(rung, problem.operands(), {.pool = pool, .isa = default_isa()}),
                   ErrorKind::unsupported, "tf32");
    }
}

TEST(Probes, StreamsMoveEveryNumberAndCountTheirWork) {
  constexpr int64_t kCount = 4096;
  for (Isa isa : supported_isas()) {
    const ProbeKernels& probes = probe_kernels(isa);
    alignas(64) static float x[kCount], y[kCount], z[kCount];
    for (int64_t i = 0; i < kCount; ++i) x[i] = static_cast<float>(i), y[i] = 2;
    for (auto copy : {probes.copy, probes.copy_past_caches}) {
      std::fill(z, z + kCount, -1.0f);
      copy(x, z, kCount);
      EXPECT_TRUE(std::equal(x, x + kCount, z)) << name(isa);
    }
    for (auto triad : {probes.triad, probes.triad_past_caches}) {
      std::fill(z, z + kCount, -1.0f);
      triad(x, y, z, kCount);
      for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(z[i], static_cast<float>(i) + 6);
    }
    float sink[64] = {};
    const int64_t once = probes.multiply_add(1, sink);
    EXPECT_GT(once, 0);
    EXPECT_EQ(probes.multiply_add(5, sink), 5 * once);
    EXPECT_TRUE(std::isfinite(sink[0]) && sink[0] != 0) << "the loop was not left out";
    if (isa >= Isa::avx512_bf16) {
      EXPECT_EQ(probes.dots(3, sink), 3 * probes.dots(1, sink));
      EXPECT_GT(sink[0], 0) << "the loop was not left out";
    }
    if (isa == Isa::amx) {
      EXPECT_EQ(probes.matrix_units(3), 3 * probes.matrix_units(1));
    }
  }
}

}  // namespace
}  // namespace ridgeline::gemm_ladder_test

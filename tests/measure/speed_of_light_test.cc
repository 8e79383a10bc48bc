#include "measure/speed_of_light.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridgeline {
namespace {

TEST(CpuPeaks, AreThreadsTimesClockTimesFlopsPerCycle) {
  const auto peak = [](std::string_view isa, std::string_view dtype) {
    return cpu_peaks({.isa = isa, .dtype = dtype, .threads = 2, .max_clock_hz = 3e9}).flops_per_s;
  };
  EXPECT_EQ(peak("avx512", "fp32"), 2 * 3e9 * 64);
  EXPECT_EQ(peak("avx2", "fp32"), 2 * 3e9 * 32);
  EXPECT_EQ(peak("portable", "fp32"), 2 * 3e9 * 16);
  EXPECT_EQ(peak("avx512", "fp64"), 2 * 3e9 * 32);
  EXPECT_EQ(peak("neon", "fp32"), std::nullopt);
}

TEST(CpuPeaks, Bf16MayUseTheMatrixUnitsOfTheProcessor) {
  const std::vector<std::string> features = {"avx512f", "amx_bf16"};
  const auto peak = [&](std::string_view isa, std::string_view dtype) {
    return cpu_peaks({.isa = isa, .dtype = dtype, .max_clock_hz = 1e9, .features = features})
        .flops_per_s;
  };
  EXPECT_EQ(peak("avx512", "bf16"), 2048e9);
  EXPECT_EQ(peak("avx512", "fp16"), 128e9);
  EXPECT_EQ(peak("avx2", "bf16"), 32e9) << "only the kernels of avx512 use them";
}

TEST(CpuPeaks, OfAmxAreThoseOfAvx512ButForBf16) {
  const auto peak = [](std::string_view isa, std::string_view dtype) {
    return cpu_peaks({.isa = isa, .dtype = dtype, .max_clock_hz = 1e9}).flops_per_s;
  };
  EXPECT_EQ(peak("amx", "bf16"), 2048e9);
  for (const char* dtype : {"fp64", "fp32", "tf32", "fp16"})
    EXPECT_EQ(peak("amx", dtype), peak("avx512", dtype)) << dtype;
  EXPECT_EQ(peak("avx512_bf16", "bf16"), 128e9);
}

TEST(CpuPeaks, SayHowTheyWereDerived) {
  EXPECT_EQ(
      cpu_peaks({.isa = "avx2", .dtype = "fp32", .threads = 2, .max_clock_hz = 3e9}).derivation,
      "2 threads x 3.00 GHz x 32 FLOPs per cycle of avx2 in fp32");
}

GpuLimits h200(double clock_hz) {
  return {.model = "NVIDIA H200",
          .compute_capability = 90,
          .multiprocessors = 132,
          .clock_hz = clock_hz};
}

// The peak of the data sheet is that at the boost clock; a card with a higher clock may exceed it.
TEST(GpuPeaks, AreTheHigherOfTheDataSheetAndTheMaximumClock) {
  EXPECT_DOUBLE_EQ(*gpu_peaks(h200(1.2e9), "bf16").flops_per_s, 989.4e12);
  EXPECT_NEAR(*gpu_peaks(h200(1.98e9), "bf16").flops_per_s, 132 * 1.98e9 * 4096, 1e6);
  EXPECT_NEAR(*gpu_peaks(h200(1.98e9), "bf16").bytes_per_s, 4.8e12, 0.06 * 4.8e12);
}

TEST(GpuPeaks, Fp32MayUseThreeNarrowProductsButNotOne) {
  const double fp32 = *gpu_peaks(h200(1.98e9), "fp32").flops_per_s;
  const double tf32 = *gpu_peaks(h200(1.98e9), "tf32").flops_per_s;
  EXPECT_NEAR(fp32, tf32 / 3, 1e6);
  EXPECT_TRUE(faster_than_light({.flops_per_s = tf32 / 2}, gpu_peaks(h200(1.98e9), "fp32")));
}

TEST(GpuPeaks, AnUnlistedGpuIsBoundedByItsArchitectureAndAnUnknownOneByNothing) {
  GpuLimits limits = h200(1e9);
  limits.model = "NVIDIA Something";
  const Peaks derived = gpu_peaks(limits, "fp16");
  EXPECT_DOUBLE_EQ(*derived.flops_per_s, 132 * 1e9 * 4096);
  EXPECT_EQ(derived.bytes_per_s, std::nullopt);
  EXPECT_EQ(derived.derivation, "132 multiprocessors x 1.00 GHz of compute capability 9.0 in fp16");
  limits.compute_capability = 61;
  EXPECT_EQ(gpu_peaks(limits, "fp16").flops_per_s, std::nullopt);
}

TEST(MaxClock, IsTheHigherOfReportedAndMeasuredWithAMargin) {
  MachineFacts machine;
  machine.max_clock_mhz = 2300;
  machine.measured_clock_mhz = 3000;
  EXPECT_DOUBLE_EQ(generous_max_clock_hz(machine), 3.3e9);
  machine.measured_clock_mhz.reset();
  EXPECT_DOUBLE_EQ(generous_max_clock_hz(machine), 2.53e9);
}

TEST(SpeedOfLight, ARowAtThePeakIsPossibleAndOneAboveIsNot) {
  const Peaks peaks{.flops_per_s = 1e12, .bytes_per_s = 1e11, .derivation = "1 thread x 1 THz"};
  EXPECT_FALSE(faster_than_light({.flops_per_s = 1e12, .bytes_per_s = 1e11}, peaks));
  const auto too_many_flops = faster_than_light({.flops_per_s = 1.01e12}, peaks);
  ASSERT_TRUE(too_many_flops);
  EXPECT_EQ(*too_many_flops,
            "1010 GFLOP/s is faster than the hardware's peak of 1000 GFLOP/s (1 thread x 1 THz)");
  const auto too_many_bytes = faster_than_light({.bytes_per_s = 2e11}, peaks);
  ASSERT_TRUE(too_many_bytes);
  EXPECT_EQ(too_many_bytes->rfind("200 GB/s is faster", 0), 0u) << *too_many_bytes;
}

TEST(SpeedOfLight, WithoutAKnownPeakNothingIsTooFast) {
  EXPECT_FALSE(faster_than_light({.flops_per_s = 1e30, .bytes_per_s = 1e30}, {}));
}

TEST(SpeedOfLight, ATimeOfZeroIsInvalidEvenWithoutAPeak) {
  EXPECT_TRUE(faster_than_light({.flops_per_s = INFINITY}, {}));
  EXPECT_TRUE(faster_than_light({.flops_per_s = NAN}, {}));
}

}  // namespace
}  // namespace ridgeline

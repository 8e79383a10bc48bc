// Rows of the GEMM lab, in small, on the CPU.
#include "studies/gemm/row.h"

#include <gtest/gtest.h>

#include "measure/record_values.h"
#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/gemm/problem.h"

namespace ridgeline::gemm_study_test {
namespace {

Record blank() {
  Record record;
  record.machine = collect_machine_facts();
  record.machine.caches = {{3, "Unified", Bytes{1 << 20}}};
  return record;
}

CpuOptions two_threads(Bytes budget = Bytes{64 << 20}) {
  return {.threads = 2, .ledger = {.budget = budget}};
}

GemmStudyOptions quick() {
  return {.row = {.protocol = {.warmups = 1, .iterations = 6}}};
}

TEST(GemmStudy, EveryImplementationIsVerifiedMeasuredAndAsLargeAsPredicted) {
  CpuDevice device(two_threads());
  for (bool cold : {false, true}) {
    GemmStudyOptions options = quick();
    options.cold = cold;
    GemmStudy study(device, options);
    for (const GemmWorkload& row : expand_matrix({.sizes = {33, 96},
                                   .dtypes = {"fp32", "bf16", "fp16"},
                                   .implementations = gemm_implementations_of(device)})) {
      const Record record = study.run(row, study.describe(row, blank())).value();
      ASSERT_EQ(record.status, Status::ok) << label(row) << ": " << record.error;
      EXPECT_TRUE(record.verification.checked);
      EXPECT_EQ(record.memory.peak, record.memory.predicted_peak) << label(row);
      EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 6u);
      EXPECT_EQ(device.ledger().live(), Bytes{0});
    }
  }
}

TEST(GemmStudy, CostsAreTheTeachingFormulae) {
  // MAC = N K M, I/O in fp32 = 4 (NK + KM + NM).
  const PhaseCost cost = gemm_cost({.m = 5, .n = 7, .k = 11}, DType::f32);
  EXPECT_EQ(cost.macs, 5 * 7 * 11);
  EXPECT_EQ(cost.flops, 2 * cost.macs);
  EXPECT_EQ(cost.bytes, Bytes{4 * (5 * 11 + 11 * 7 + 5 * 7)});
  EXPECT_EQ(gemm_cost({8, 1, 8}, DType::bf16).bytes, Bytes{2 * (64 + 8 + 8)});
  EXPECT_ERROR(gemm_cost({int64_t{1} << 40, int64_t{1} << 40, 1}, DType::f32), ErrorKind::usage,
               "too large");
}

TEST(GemmStudy, MetricsFollowTheirConventions) {
  CpuDevice device(two_threads());
  Roofline roofline;
  roofline.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = 1e12});
  roofline.memory.push_back({.level = "memory", .probe = "copy", .rate = 1e10});
  GemmStudyOptions options = quick();
  options.roofline = &roofline;
  GemmStudy study(device, options);
  const GemmWorkload row{.shape = {64, 64, 64}, .implementation = "tiled"};
  const Record record = study.run(row, study.describe(row, blank())).value();
  const double seconds = record.find_series("forward")->statistics.median_ms / 1e3;
  const Json& of = record.metrics.value()["forward"];
  const double intensity = 2.0 * 64 * 64 * 64 / (4 * 3 * 64 * 64);
  EXPECT_NEAR(of["gflops_per_s"].get<double>() * seconds, 2e-9 * 64 * 64 * 64, 1e-12);
  EXPECT_NEAR(of["arithmetic_intensity"].get<double>(), intensity, 1e-9);
  EXPECT_NEAR(of["ceiling_share"].get<double>(),
              of["gflops_per_s"].get<double>() * 1e9 / (1e10 * intensity), 1e-9);
  EXPECT_GT(of["peak_share"].get<double>(), 0);
}

TEST(GemmStudy, ACacheThatHoldsTheOperandsIsNamedBesideMemory) {
  CpuDevice device(two_threads());
  Roofline roofline;
  roofline.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = 1e15});
  roofline.memory = {{.level = "L2", .probe = "copy", .rate = 4e10, .capacity = Bytes{1 << 20}},
                     {.level = "memory", .probe = "copy", .rate = 1e10}};
  for (const bool cold : {false, true}) {
    GemmStudyOptions options = quick();
    options.roofline = &roofline;
    options.cold = cold;
    GemmStudy study(device, options);
    const GemmWorkload row{.shape = {64, 1, 64}};
    const Record record = study.run(row, study.describe(row, blank())).value();
    const Json& of = record.metrics.value()["forward"];
    EXPECT_EQ(text_of(of, "ceiling_level"), cold ? "memory" : "L2");
    EXPECT_EQ(of.contains("ceiling_level_bytes"), !cold);
    EXPECT_NEAR(of["memory_ceiling_share"].get<double>() / of["ceiling_share"].get<double>(),
                cold ? 1 : 4, 1e-9);
  }
}

TEST(GemmStudy, WhatTheDeviceCannotServeIsAStatus) {
  CpuDevice small(two_threads(Bytes{10'000}));
  GemmStudy study(small, quick());
  const GemmWorkload large{.shape = {64, 64, 64}};
  EXPECT_EQ(study.run(large, study.describe(large, blank()))->status, Status::oom);
  CpuDevice device(two_threads());
  GemmStudy on_cpu(device, quick());
  for (const char* implementation : {"library", "naive", "simd"}) {
    const GemmWorkload tf32{{8, 8, 8}, DType::tf32, implementation};
    EXPECT_EQ(on_cpu.run(tf32, on_cpu.describe(tf32, blank()))->status, Status::unsupported);
  }
}

TEST(GemmProblem, TheCheckSeesOneWrongElementAndOneThatWasNotWritten) {
  CpuDevice device(two_threads());
  GemmProblem problem({.shape = {40, 40, 40}}, device, 42);
  problem.run_poisoned();
  const Verification good = problem.verify(42);
  EXPECT_LE(good.tensors[0].max_error, good.tensors[0].tolerance);
  float* out = problem.out().as<float>();
  const float kept = out[777];
  for (float wrong : {kept + 0.01f, std::numeric_limits<float>::quiet_NaN()}) {
    out[777] = wrong;
    const Verification bad = problem.verify(42);
    EXPECT_FALSE(bad.tensors[0].max_error <= bad.tensors[0].tolerance);
  }
}

TEST(GemmWorkload, ShapesAreParsedOrRefused) {
  EXPECT_EQ(parse_gemm_shape("4,5,6"), (GemmShape{4, 5, 6}));
  for (const char* text : {"", "4", "4,5", "4,5,6,7", "0,1,1", "4,-5,6", "a,b,c", "4,5,6 "})
    EXPECT_ERROR(parse_gemm_shape(text), ErrorKind::usage, "is not a shape");
  EXPECT_ERROR(expand_matrix(GemmMatrix{.ops = {"axpy"}, .sizes = {4}}), ErrorKind::usage, "axpy");
  EXPECT_ERROR(kGemmImplementations.find("fast"), ErrorKind::usage, "naive, tiled, simd, library");
}

}  // namespace
}  // namespace ridgeline::gemm_study_test

// The GEMM lab and the roofline's probes on a GPU: every kernel against fp64, every probe a rate.
#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "studies/gemm/row.h"
#include "studies/roofline/row.h"
#include "support/gpu.h"

namespace ridgeline::gemm_study_test {
namespace {

TEST(GemmOnGpu, EveryRungIsRightForOddShapesAndDtypes) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  GemmStudy study(device, {.row = {.protocol = {.warmups = 0, .iterations = 2}}});
  for (const GemmWorkload& row : expand_matrix({.sizes = {1, 63, 130, 512},
                                 .shapes = {{129, 65, 31}, {1, 300, 64}, {257, 1, 1000}, {8, 1, 7}},
                                 .dtypes = {"fp32", "bf16", "fp16"},
                                 .implementations = gemm_implementations_of(device)})) {
    const Record record = study.run(row, study.describe(row, {})).value();
    EXPECT_EQ(record.status, Status::ok) << label(row) << ": " << record.error;
  }
}

TEST(GemmOnGpu, Tf32IsTheLibrarysAndSimdTheCpus) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  GemmStudy study(device, {.row = {.protocol = {.warmups = 0, .iterations = 2}}});
  const auto status = [&](DType dtype, const char* implementation) {
    const GemmWorkload row{{64, 64, 64}, dtype, implementation};
    return study.run(row, study.describe(row, {}))->status;
  };
  EXPECT_EQ(status(DType::tf32, "library"), Status::ok);
  EXPECT_EQ(status(DType::tf32, "tiled"), Status::unsupported);
  EXPECT_EQ(status(DType::f32, "simd"), Status::unsupported);
}

TEST(RooflineOnGpu, EveryProbeGivesARateBelowThePeak) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  RooflineStudy study(
      device, {.row = {.protocol = {.warmups = 0, .time_budget_s = 0.02}}, .settle_s = 0.01});
  for (const CeilingProbe& probe : study.probes({"fp32", "tf32", "bf16", "fp16"}, {})) {
    const Record record = study.run(probe, study.describe(probe, {})).value();
    EXPECT_EQ(record.status, Status::ok) << label(probe) << ": " << record.error;
  }
}

}  // namespace
}  // namespace ridgeline::gemm_study_test

// fp16 training with and without loss scaling: with it the loss follows fp32's, without it
// gradients are flushed to 0 and the loss falls behind.
#include "studies/precision/training.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "studies/precision/row.h"
#include "studies/precision/tables.h"
#include "support/expect.h"
#include "support/gpu.h"

namespace ridgeline::precision_study_test {
namespace {

void expect_fp16_to_need_loss_scaling(Device& device, Mode mode) {
  const auto trained = [&](TrainingVariant variant) {
    return train({.variant = variant, .mode = mode}, device);
  };
  const TrainingResult full = trained(TrainingVariant::fp32);
  const TrainingResult scaled = trained(TrainingVariant::fp16_scaled);
  const TrainingResult unscaled = trained(TrainingVariant::fp16_unscaled);
  ASSERT_EQ(full.losses.size(), 201u);
  EXPECT_GT(full.losses.front(), 2.5);
  EXPECT_LT(full.losses.back(), 0.01) << "the task is learnt";
  EXPECT_NEAR(scaled.losses.back(), full.losses.back(), 0.02 * full.losses.back());
  EXPECT_GT(unscaled.losses.back(), 1.05 * full.losses.back());
  EXPECT_EQ(scaled.loss_scale.scale, 65536 / std::exp2(scaled.loss_scale.skipped_steps));
  EXPECT_EQ(unscaled.loss_scale.scale, 1);
  ASSERT_TRUE(unscaled.underflow.has_value());
  EXPECT_TRUE(unscaled.underflow->tensor.starts_with("d_")) << unscaled.underflow->tensor;
  EXPECT_GE(unscaled.underflow->share, 0.1) << unscaled.underflow->tensor;
}

TEST(Training, Fp16FollowsFp32WithLossScalingAndFallsBehindWithoutIt) {
  CpuDevice device({.threads = 1});
  expect_fp16_to_need_loss_scaling(device, Mode::vanilla);
}
// With a launch graph, in which the device alone keeps the scale.
TEST(Training, Fp16FollowsFp32WithLossScalingInEveryModeOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    expect_fp16_to_need_loss_scaling(device, mode);
}

// A scale that fp16 cannot bear at first: steps are skipped until it can.
TEST(Training, AScaleThatIsTooLargeHalvesUntilGradientsAreFinite) {
  CpuDevice device({.threads = 1});
  const ModelWorkload workload{trained_model(), ModelPrecision::mixed_fp16, Mode::vanilla};
  ModelStudy study(device, {.row = {.protocol = {.warmups = 1, .iterations = 6}},
                            .scenarios = {Scenario::full_step},
                            .optimizer = {.loss_scaling = LossScaling{.initial = 0x1p40}}});
  const Record record = study.run(workload, study.describe(workload, {})).value();
  EXPECT_EQ(record.status, Status::ok) << record.error;
  const Json& metrics = (*record.metrics)["full_step"];
  const double skipped = metrics.value("skipped_steps", 0.0);
  EXPECT_GT(skipped, 5);
  EXPECT_EQ(metrics.value("loss_scale", 0.0), 0x1p40 / std::exp2(skipped));
}

TEST(Training, AFixedScaleThatIsTooLargeIsNamed) {
  CpuDevice device({.threads = 1});
  const ModelWorkload workload{trained_model(), ModelPrecision::mixed_fp16, Mode::vanilla};
  ModelStudy study(
      device, {.row = {.protocol = {.warmups = 1, .iterations = 6}},
               .scenarios = {Scenario::full_step},
               .optimizer = {.loss_scaling = LossScaling{.initial = 1e12, .growth_interval = 0}}});
  const Record record = study.run(workload, study.describe(workload, {})).value();
  EXPECT_EQ(record.status, Status::wrong);
  EXPECT_HAS(record.error, "not finite with a loss scale of 1e+12");
}

TEST(Training, RowsHaveATableAChartAndTheAnswer) {
  CpuDevice device({.threads = 1});
  PrecisionStudy study(device, {});
  ReportInput input;
  for (const TrainingVariant variant :
       {TrainingVariant::fp32, TrainingVariant::fp16_scaled, TrainingVariant::fp16_unscaled}) {
    const TrainingRun run{.variant = variant, .steps = 5};
    input.records.push_back(study.run(run, study.describe(run, {})).value());
    EXPECT_EQ(input.records.back().status, Status::ok) << input.records.back().error;
  }
  const std::vector<Table> tables = precision_tables(input.records);
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].rows.size(), 3u);
  const Table csv = precision_csv(input.records);
  ASSERT_EQ(csv.rows.size(), 3u);
  EXPECT_EQ(csv.columns.back(), "flushed_share");
  EXPECT_FALSE(csv.rows[2].back().empty());
  const ReportSection section = precision_section(report_context(input));
  ASSERT_EQ(section.views.size(), 1u);
  EXPECT_EQ(section.views[0].charts.at(0).series.size(), 3u);
  ASSERT_FALSE(section.sentences.empty());
  EXPECT_TRUE(section.sentences[0].starts_with("Loss scaling: after 5 steps the loss is"))
      << section.sentences[0];
}

}  // namespace
}  // namespace ridgeline::precision_study_test

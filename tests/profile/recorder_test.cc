#include "profile/recorder.h"

#include <gtest/gtest.h>

#include "profile/profile_support.h"

namespace ridgeline {
namespace {

using testing::tiny_transformer;
using testing::training_step;

Profile profile_of(Mode mode, CpuDevice& device, const RecordOptions& options) {
  Executable executable(training_step(tiny_transformer()), device, {.mode = mode});
  executable.prepare();
  testing::fill_inputs(executable, device);
  return record_profile(executable, device, nullptr, options);
}

class RecordedOnTheCpu : public ::testing::TestWithParam<Mode> {};

TEST_P(RecordedOnTheCpu, EveryKernelOfEveryStepIsMapped) {
  CpuDevice device({.threads = 2});
  const Profile profile = profile_of(GetParam(), device, {});
  EXPECT_EQ(profile.steps.size(), 6u);
  EXPECT_EQ(profile.steps.front().number, 4);
  EXPECT_EQ(profile.unmapped, 0u);
  EXPECT_EQ(profile.invocations.size(), 6 * profile.kernels.size());
  EXPECT_GT(profile.kernels.size(), 20u);
  EXPECT_FALSE(launch_verdict(profile));
  EXPECT_TRUE(matmul_share(profile));
  EXPECT_GT(profile.untraced_step_ms, 0);
  EXPECT_TRUE(profile.tracing_cost());
  // Kernels of a CPU follow each other inside of their step.
  int64_t end = 0;
  for (const Invocation& each : profile.invocations) {
    EXPECT_GE(each.work.begin_ns, end);
    end = each.work.end_ns;
    const ProfileStep& step = profile.steps[each.step];
    EXPECT_GE(each.work.begin_ns, step.begin_ns);
    EXPECT_LE(each.work.end_ns, step.end_ns);
    EXPECT_TRUE(each.leads);
    EXPECT_GE(each.imbalance, -1e-9);
    EXPECT_LE(each.imbalance, 1 + 1e-9);  // one of two threads did all
  }
  ASSERT_EQ(profile.threads.size(), 2u);
  EXPECT_FALSE(profile.threads[0].empty());
}

INSTANTIATE_TEST_SUITE_P(Ladder, RecordedOnTheCpu, ::testing::Values(Mode::vanilla, Mode::compiled),
                         [](const auto& each) {
                           return std::string(ridgeline::info(each.param).name);
                         });

TEST(Recorder, RunsAsManyStepsAsTheScheduleSays) {
  CpuDevice device({.threads = 1});
  Executable executable(training_step(tiny_transformer()), device, {});
  executable.prepare();
  testing::fill_inputs(executable, device);
  int steps = 0;
  const Profile profile = record_profile(executable, device, nullptr,
                                         {.schedule = {.wait = 2, .warmup = 1, .active = 3},
                                          .step =
                                              [&] {
                                                ++steps;
                                                executable.run();
                                              },
                                          .compare = false});
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(profile.steps.size(), 3u);
  EXPECT_EQ(profile.untraced_step_ms, 0);
  EXPECT_FALSE(profile.tracing_cost());
}

TEST(Recorder, PredictionsStandBesideWhatWasMeasured) {
  CpuDevice device({.threads = 1});
  const Profile profile =
      profile_of(Mode::vanilla, device,
                 {.schedule = {.wait = 0, .warmup = 1, .active = 1},
                  .predict =
                      [](const ProfiledKernel& kernel) {
                        return least_us(kernel.cost, {.flops_per_s = 1e9, .bytes_per_s = 1e9});
                      },
                  .compare = false});
  for (const Fold& row : fold(profile, FoldBy::phase)) {
    EXPECT_TRUE(row.predicted_us) << row.key;
    EXPECT_TRUE(row.prediction_error()) << row.key;
  }
}

TEST(Recorder, LeavesTheDeviceAsItWasAlsoAfterAnError) {
  CpuDevice device({.threads = 2});
  Executable executable(training_step(tiny_transformer()), device, {});
  executable.prepare();
  testing::fill_inputs(executable, device);
  int steps = 0;
  const auto failing = [&] {
    executable.run();
    if (++steps == 2) throw std::runtime_error("planted");
  };
  EXPECT_THROW(record_profile(executable, device, nullptr,
                              {.schedule = {.wait = 0, .warmup = 0, .active = 4}, .step = failing}),
               std::runtime_error);
  executable.run();  // neither observer nor spans are left behind
}

}  // namespace
}  // namespace ridgeline

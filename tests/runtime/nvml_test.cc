#include "runtime/cuda/nvml.h"

#include <gtest/gtest.h>

#include "jit/run_child.h"
#include "runtime/cuda/driver_api.h"

namespace ridgeline::nvml_test {
namespace {

TEST(Nvml, ClockReasonsHaveNames) {
  EXPECT_EQ(clock_reasons_text(0), "none");
  EXPECT_EQ(clock_reasons_text(0x4), "sw_power_cap");
  EXPECT_EQ(clock_reasons_text(0x48), "hw_slowdown hw_thermal_slowdown");
  EXPECT_EQ(clock_reasons_text(0x1001), "idle 0x1000");
}

TEST(Child, DISABLED_HasNoNvml) {
  EXPECT_FALSE(gpu_state(0));
  EXPECT_EQ(nvidia_driver_version(), "");
}

TEST(Nvml, WithoutItNothingIsKnownAndNothingFails) {
  const ChildResult child = run_child("HasNoNvml", {{"RIDGELINE_CUDA_LIBRARIES", "none"}});
  EXPECT_EQ(child.exit_code, 0) << child.out;
}

TEST(Nvml, ReadsTheStateOfAGpu) {
  try {
    cuda::driver();
  } catch (const Error& error) {
    GTEST_SKIP() << error.message();
  }
  const std::optional<GpuState> state = gpu_state(0);
  if (!state) GTEST_SKIP() << "NVML does not know this GPU";
  EXPECT_NE(nvidia_driver_version(), "");
  if (state->sm_clock_mhz && state->max_sm_clock_mhz) {
    EXPECT_GT(*state->sm_clock_mhz, 50);
    EXPECT_LE(*state->sm_clock_mhz, *state->max_sm_clock_mhz);
  }
  if (state->temperature_c) {
    EXPECT_GT(*state->temperature_c, 5);
    EXPECT_LT(*state->temperature_c, 120);
  }
  if (state->power_w && state->power_limit_w) {
    EXPECT_GT(*state->power_w, 1);
    EXPECT_LT(*state->power_w, 2 * *state->power_limit_w);
  }
  EXPECT_FALSE(gpu_state(1000));
}

}  // namespace
}  // namespace ridgeline::nvml_test

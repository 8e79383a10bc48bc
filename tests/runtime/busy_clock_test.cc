// The accounting of busy time, on a GPU that stands in for one (tests/jit/fake_gpu.cc), whose holds
// take exactly as long as they say; and on a real one where there is one.
#include "runtime/cuda/busy_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "jit/run_child.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "runtime/cuda/cuda_device.h"
#include "support/gpu.h"

namespace ridgeline::busy_clock_test {
namespace {

void host_works_for(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

class StandIn {
 public:
  StandIn() {
    cuda::Module module = nullptr;
    queue.check(queue.driver().cuModuleLoadData(&module, ""), "loading");
    queue.check(queue.driver().cuModuleGetFunction(&function_, module, "hold"), "finding");
  }
  void gpu_works_for(double ms) { queue.launch(function_, plan_hold(ms)); }
  // As a study does: again, where the host was late.
  double busy_ms(const std::function<void()>& work) {
    for (int attempt = 0; attempt < 20; ++attempt)
      if (const std::optional<double> ms = clock.time_ms(work)) return *ms;
    ADD_FAILURE() << "the host was late every time";
    return 0;
  }

  PrimaryContext context{0};
  CudaQueue queue{context};
  BusyClock clock{queue, [this](double ms) { gpu_works_for(ms); }};

 private:
  cuda::Function function_ = nullptr;
};

constexpr double kRounding = 1e-3;  // events hold floats

TEST(Child, DISABLED_CountsKernelsAndNotTheHostBetweenThem) {
  StandIn gpu;
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      gpu.gpu_works_for(0.02);
      host_works_for(0.1);
    }
  };
  EXPECT_NEAR(gpu.busy_ms(work), 20 * 0.02, kRounding);
  EXPECT_GT(gpu.queue.time_ms(work), 20 * 0.1) << "events around all of it wait for the host";
}

TEST(Child, DISABLED_CountsLongKernelsInFull) {
  StandIn gpu;
  EXPECT_NEAR(gpu.busy_ms([&] {
    for (int i = 0; i < 3; ++i) gpu.gpu_works_for(10);
  }),
              3 * 10, kRounding);
}

TEST(Child, DISABLED_EndsAWindowBeforeTheHostWaits) {
  StandIn gpu;
  EXPECT_NEAR(gpu.busy_ms([&] {
    for (int i = 0; i < 2; ++i) {
      gpu.gpu_works_for(0.02);
      gpu.queue.synchronize();
      host_works_for(40);  // longer than any hold
    }
  }),
              2 * 0.02, kRounding);
}

TEST(Child, DISABLED_SaysNothingWhereTheHostWasLate) {
  StandIn gpu;
  EXPECT_FALSE(gpu.clock.time_ms([&] {
    gpu.gpu_works_for(0.02);
    host_works_for(40);
    gpu.gpu_works_for(0.02);
  }));
}

TEST(Child, DISABLED_TimesWorkOnTheStreamOfTheCaller) {
  StandIn gpu;
  int stream = 0;
  gpu.queue.redirect(reinterpret_cast<cuda::Stream>(&stream));
  EXPECT_GE(gpu.queue.time_ms([&] { gpu.gpu_works_for(20); }), 20 - kRounding);
  gpu.queue.mark();
  gpu.gpu_works_for(20);
  gpu.queue.mark();
  EXPECT_GE(gpu.queue.take_marks_ms().at(1), 20 - kRounding);
}

class BusyTime : public ::testing::TestWithParam<const char*> {};

TEST_P(BusyTime, OfAStandIn) {
  const TempDir libraries;
  std::filesystem::create_symlink(FAKE_GPU, libraries / "libcuda.so.1");
  const ChildResult child = run_child(GetParam(), {{"RIDGELINE_CUDA_LIBRARIES", libraries.path()}});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
}

INSTANTIATE_TEST_SUITE_P(Clock, BusyTime,
                         ::testing::Values("CountsKernelsAndNotTheHostBetweenThem",
                                           "CountsLongKernelsInFull",
                                           "EndsAWindowBeforeTheHostWaits",
                                           "SaysNothingWhereTheHostWasLate",
                                           "TimesWorkOnTheStreamOfTheCaller"),
                         [](const auto& name) { return std::string(name.param); });

TEST(CudaDevice, BusyTimeLeavesOutTheWaitsForTheHost) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device({.budget = Bytes{int64_t{64} << 20}});
  constexpr int kLaunches = 20;
  constexpr double kGpuMs = 0.05, kHostMs = 0.3;
  const auto launches = [&] {
    for (int i = 0; i < kLaunches; ++i) device.launch(plan_hold(kGpuMs));
  };
  const auto slowly = [&] {
    for (int i = 0; i < kLaunches; ++i) {
      device.launch(plan_hold(kGpuMs));
      host_works_for(kHostMs);
    }
  };
  launches();
  const CudaGraph graph = device.capture(launches);
  const std::function<void()> ways[] = {launches, slowly, [&] { graph.launch(); }};
  for (const std::function<void()>& way : ways) {
    std::optional<double> busy_ms;
    for (int attempt = 0; attempt < 10 && !busy_ms; ++attempt) busy_ms = device.busy_ms(way);
    ASSERT_TRUE(busy_ms);
    EXPECT_GT(*busy_ms, 0.9 * kLaunches * kGpuMs);
    EXPECT_LT(*busy_ms, kLaunches * (kGpuMs + 0.5 * kHostMs));
  }
  EXPECT_GT(device.time_ms(slowly), 0.9 * kLaunches * kHostMs);
}

}  // namespace
}  // namespace ridgeline::busy_clock_test

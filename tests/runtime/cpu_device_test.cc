#include "runtime/cpu_device.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "graph/tensor.h"
#include "plan/plan.h"

namespace ridgeline {
namespace {

TEST(CpuDevice, WorksThatFollowEachOtherAreTimedApartAndInOrder) {
  using namespace std::chrono_literals;
  CpuDevice device({.threads = 1});
  std::string order;
  const std::vector<std::function<void()>> works = {[&] { order += 'a'; },
                                                    [&] {
                                                      order += 'b';
                                                      std::this_thread::sleep_for(20ms);
                                                    }};
  const std::vector<double> parts = device.time_each_ms(works);
  EXPECT_EQ(order, "ab");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_GE(parts[0], 0);
  EXPECT_GE(parts[1], 20);
  EXPECT_LT(parts[0], parts[1]) << "the sleep is the second one's";
}

TEST(CpuDevice, LendsItsThreadsToTheHost) {
  CpuDevice device({.threads = 3});
  ASSERT_NE(device.host_threads(), nullptr);
  EXPECT_EQ(device.host_threads()->threads(), 3);
}

TEST(CpuDevice, HasNoLaunchGraphsAndNoClocksToTell) {
  CpuDevice device({.threads = 1});
  bool ran = false;
  EXPECT_EQ(device.record([&] { ran = true; }), nullptr);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(device.state());
  EXPECT_FALSE(device.facts().is_gpu());
}

TEST(CpuDevice, NamesTheFunctionsOfGeneratedKernels) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {64}});
  graph.mark_output("y", (exp(x) * 2).value());
  const Plan plan = make_plan(graph);
  const CpuDevice device({.threads = 1});
  const auto names = device.functions_of(plan.kernels[0].group.kernel, plan.emit);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names[0].starts_with(plan.kernels[0].group.kernel.name)) << names[0];
}

}  // namespace
}  // namespace ridgeline

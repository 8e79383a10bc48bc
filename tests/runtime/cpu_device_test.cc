#include "runtime/cpu_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "graph/tensor.h"
#include "plan/plan.h"

namespace ridgeline::cpu_device_test {
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
  EXPECT_FALSE(device.record([&] { ran = true; }));
  EXPECT_FALSE(ran);
  EXPECT_FALSE(device.state());
  EXPECT_FALSE(device.facts().is_gpu());
}

TEST(CpuDevice, StreamsWriteWhatTheyCount) {
  CpuDevice device({.threads = 2});
  constexpr int64_t kNumbers = 1024;
  const auto make = [&](const char* name, float value) {
    Allocation memory = device.ledger().allocate(Bytes{kNumbers * 4}, name);
    std::fill_n(static_cast<float*>(memory.data()), kNumbers, value);
    return memory;
  };
  const auto view = [](const Allocation& memory) {
    return TensorView{memory.data(), DType::f32, {kNumbers}, {1}};
  };
  const Allocation a = make("a", 2), b = make("b", 5), to = make("to", 0);
  const float* written = view(to).as<float>();
  EXPECT_EQ(device.stream_probes().size(), 3u);
  for (const StreamProbe& way : device.stream_probes())
    for (const bool is_triad : {false, true}) {
      if (is_triad && way.copies_only) continue;
      StreamArrays arrays{.a = view(a), .to = view(to), .in_cache = true};
      if (is_triad) arrays.b = view(b);
      const RateProbe probe = way.prepare(arrays);
      device.poison(view(to));
      probe.start();
      for (int64_t i = 0; i < kNumbers; ++i)
        ASSERT_EQ(written[i], is_triad ? 17 : 2) << way.suffix << " at " << i;
      const double once = (is_triad ? 3 : 2) * 4.0 * kNumbers;
      EXPECT_GE(probe.bytes, once);
      EXPECT_EQ(std::fmod(probe.bytes, once), 0) << way.suffix << ": whole passes";
    }
}

TEST(CpuDevice, ReadsCountWholePassesAndWriteNothing) {
  CpuDevice device({.threads = 2});
  constexpr int64_t kNumbers = 1024;
  const Allocation memory = device.ledger().allocate(Bytes{kNumbers * 4}, "a");
  float* numbers = static_cast<float*>(memory.data());
  std::fill_n(numbers, kNumbers, 2.0f);
  int ways = 0;
  for (const StreamProbe& way : device.stream_probes()) {
    if (!way.read) continue;
    ++ways;
    const RateProbe probe =
        way.read({.a = {memory.data(), DType::f32, {kNumbers}, {1}}, .to = {}, .in_cache = true});
    probe.start();
    EXPECT_EQ(std::count(numbers, numbers + kNumbers, 2.0f), kNumbers);
    EXPECT_EQ(std::fmod(probe.bytes, 4.0 * kNumbers), 0) << way.suffix;
  }
  EXPECT_EQ(ways, 2);
}

TEST(CpuDevice, EveryRungOfTheLadderMultiplies) {
  CpuDevice device({.threads = 2});
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, b = {1, 0, 0, 1, 1, 1}, out(4);
  for (GemmRung rung : {GemmRung::naive, GemmRung::tiled, GemmRung::simd, GemmRung::library}) {
    EXPECT_TRUE(device.has_gemm(rung));
    std::ranges::fill(out, 0.0f);
    device.prepare_gemm(rung, {.a = {a.data(), DType::f32, {2, 3}, {3, 1}},
                               .b = {b.data(), DType::f32, {3, 2}, {2, 1}},
                               .out = {out.data(), DType::f32, {2, 2}, {2, 1}}})();
    EXPECT_EQ(out, (std::vector<float>{4, 5, 10, 11})) << static_cast<int>(rung);
  }
}

TEST(CpuDevice, NamesTheFunctionsOfGeneratedKernels) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {64}});
  graph.mark_output("y", (exp(x) * 2).value());
  const Plan plan = make_plan(graph);
  const CpuDevice device({.threads = 1});
  const auto names = device.functions_of(plan.kernels[0].group.kernel);
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(names[0].starts_with(plan.kernels[0].group.kernel.name)) << names[0];
}

}  // namespace
}  // namespace ridgeline::cpu_device_test

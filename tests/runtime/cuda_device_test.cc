// The CUDA device itself: memory, errors, launch graphs, tuning. Values are checked in
// cuda_eager_test.cc.
#include "runtime/cuda/cuda_device.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "jit/cuda_libraries.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "models/attention.h"
#include "support/expect.h"
#include "support/gpu.h"
#include "support/run_eager.h"

namespace ridgeline::cuda_device_test {
namespace {

constexpr Bytes kMebibyte{int64_t{1} << 20};

// A tensor of its own, in memory of the ledger.
struct Owned {
  Owned(CudaDevice& device, Shape shape, float value)
      : memory(device.ledger().allocate(byte_size({DType::f32, shape}), "tensor")),
        view{memory.data(), DType::f32, shape, contiguous_strides(shape)} {
    const std::vector<float> values(static_cast<size_t>(element_count(shape)), value);
    device.upload(view, values.data());
  }
  Allocation memory;
  TensorView view;
};

TEST(CudaFacts, ArchitecturesFromHopperOnHaveTheirOwnInstructions) {
  EXPECT_EQ(CudaFacts{.compute_capability = 80}.arch(), "sm_80");
  EXPECT_EQ(CudaFacts{.compute_capability = 89}.arch(), "sm_89");
  EXPECT_EQ(CudaFacts{.compute_capability = 90}.arch(), "sm_90a");
  EXPECT_EQ(CudaFacts{.compute_capability = 100}.arch(), "sm_100a");
}

TEST(CudaDevice, WithoutADriverTheErrorSaysSo) {
  if (cuda_library("cuda")) GTEST_SKIP() << "there is a driver on this machine";
  EXPECT_ERROR(CudaDevice{}, ErrorKind::unsupported, "install NVIDIA's driver");
}

TEST(CudaDevice, TheDriversCopyMovesEveryNumberInTheOrderOfOurWork) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device({.budget = Bytes{int64_t{64} << 20}});
  const Owned from(device, {1000003}, 7), to(device, {1000003}, 0), shorter(device, {5}, 0);
  device.poison(to.view);  // before the copy on the same stream, so nothing of it may be left
  device.copy(from.view, to.view);
  std::vector<float> values(1000003);
  device.download(to.view, values.data());
  for (const float value : values) ASSERT_EQ(value, 7);
  EXPECT_THROW(device.copy(from.view, shorter.view), Error);
}

TEST(CudaDevice, AGpuThatDoesNotExistIsAUsageError) {
  RIDGELINE_NEEDS_GPU();
  EXPECT_ERROR(CudaDevice({.ordinal = 99}), ErrorKind::usage, "99");
}

TEST(CudaDevice, FactsDescribeTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const CudaFacts& facts = device.cuda_facts();
  EXPECT_GE(facts.compute_capability, 80);
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GT(facts.l2_bytes, 0);
  EXPECT_GT(facts.max_clock_hz, 1e8);
  EXPECT_EQ(device.facts().isa, facts.arch());
  EXPECT_HAS(device.description(), facts.name);
  EXPECT_GT(device.ledger().budget(), kMebibyte);
}

TEST(CudaDevice, MoreThanTheBudgetIsOutOfMemoryAndNotTheEnd) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device({.budget = kMebibyte});
  EXPECT_ERROR(device.ledger().allocate({2 * kMebibyte.count}, "scores"), ErrorKind::out_of_memory,
               "scores");
  EXPECT_TRUE(device.ledger().allocate({1000}, "small"));
}

TEST(CudaDevice, MoreThanTheGpuHasIsOutOfMemoryAndNotTheEnd) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device({.budget = Bytes{INT64_MAX}});
  EXPECT_ERROR(device.ledger().allocate(device.cuda_facts().memory + kMebibyte, "scores"),
               ErrorKind::out_of_memory, "free");
  const Owned x(device, {100}, 2), y(device, {100}, 0);
  device.launch(plan_copy(x.view, y.view));
  EXPECT_EQ(testing::elements(device, y.view), std::vector<double>(100, 2));
}

TEST(CudaDevice, TheDriverCountsWhatTheLedgerCounts) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const Bytes before = *device.driver_memory_in_use();
  const Allocation block = device.ledger().allocate({256 * kMebibyte.count}, "block");
  const Bytes grown = *device.driver_memory_in_use() - before;
  EXPECT_NEAR(static_cast<double>(grown.count), 256.0 * 1048576, 0.05 * 256 * 1048576);
}

TEST(CudaDevice, PoisonReadsAsNan) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const Owned x(device, {1000}, 1);
  device.poison(x.view);
  for (double value : testing::elements(device, x.view)) ASSERT_TRUE(std::isnan(value));
}

TEST(CudaDevice, TimeIsMeasuredByTheGpu) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const Owned x(device, {1 << 24}, 1), y(device, {1 << 24}, 0);
  const CudaLaunch copy = plan_copy(x.view, y.view);
  const auto copies = [&](int count) {
    return device.time_ms([&] {
      for (int i = 0; i < count; ++i) device.launch(copy);
    });
  };
  copies(3);
  const double few = copies(10), many = copies(40);
  EXPECT_GT(few, 0.05);  // 1.3 GB at less than 30 TB/s
  EXPECT_GT(many, 2 * few);
  device.cache_flush({})();
  device.synchronize();
}

TEST(CudaDevice, WorksThatFollowEachOtherAreTimedApartAndNothingWaitsBetweenThem) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const Owned x(device, {1 << 24}, 1), y(device, {1 << 24}, 0);
  const CudaLaunch copy = plan_copy(x.view, y.view);
  const auto copies = [&](int count) {
    return [&device, &copy, count] {
      for (int i = 0; i < count; ++i) device.launch(copy);
    };
  };
  const std::vector<std::function<void()>> works = {copies(10), copies(40)};
  device.time_each_ms(works);
  const std::vector<double> parts = device.time_each_ms(works);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_GT(parts[0], 0.05);
  EXPECT_GT(parts[1], 2 * parts[0]);
  const double whole = device.time_ms([&] {
    for (const auto& work : works) work();
  });
  EXPECT_NEAR(parts[0] + parts[1], whole, 0.2 * whole);
}

struct Attention {
  explicit Attention(CudaDevice& used)
      : graph(attention_training_graph({.batch_size = 2, .seq_len = 96, .head_dim = 32})),
        schedule(eager_schedule(graph)),
        device(used),
        executor(graph, schedule, used) {
    int seed = 0;
    for (Value value : graph.inputs()) {
      std::vector<double> values(static_cast<size_t>(element_count(graph.type(value).shape)));
      for (double& x : values) x = std::sin(++seed);
      testing::upload(device, executor.input(graph.node(value).name), values);
    }
  }
  std::map<std::string, std::vector<double>> outputs() {
    std::map<std::string, std::vector<double>> result;
    for (const Output& output : graph.outputs())
      result[output.name] = testing::elements(device, executor.output(output.name));
    return result;
  }
  Graph graph;
  Schedule schedule;
  CudaDevice& device;
  EagerExecutor executor;
};

TEST(CudaDevice, ACapturedGraphGivesTheSameBits) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Attention attention(device);
  attention.executor.run_all();
  attention.executor.run_all();
  const auto expected = attention.outputs();
  const CudaGraph graph = device.capture([&] { attention.executor.run_all(); });
  for (const Output& output : attention.graph.outputs())
    device.poison(attention.executor.output(output.name));
  for (int i = 0; i < 3; ++i) graph.launch();
  device.synchronize();
  EXPECT_EQ(attention.outputs(), expected);
}

TEST(CudaDevice, CapturingWhatNeverRanIsAnErrorThatSaysToRunItFirst) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Attention attention(device);
  EXPECT_ERROR(device.capture([&] { attention.executor.run_all(); }), ErrorKind::usage,
               "once before");
  attention.executor.run_all();  // the device is as good as before
  attention.executor.run_all();
  EXPECT_TRUE(device.capture([&] { attention.executor.run_all(); }));
}

TEST(CudaDevice, ASteadyLoopTakesNothingFromTheDriver) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  Attention attention(device);
  for (int i = 0; i < 3; ++i) attention.executor.run_all();
  // A capture refuses to go to the driver.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(device.capture([&] { attention.executor.run_all(); }));
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = ::testing::TempDir() + "tuningXXXXXX";
    path = mkdtemp(name.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

TEST(CudaTuner, TheFastestVariantIsFoundAndRemembered) {
  RIDGELINE_NEEDS_GPU();
  const TemporaryDirectory cache;
  const CudaOptions options{.tuning = Tuning::quick, .jit = {.cache_dir = cache.path}};
  const auto choose = [](CudaDevice& device) {
    const Owned x(device, {1 << 20}, 1), y(device, {1 << 20}, 0);
    const CudaLaunch copy = plan_copy(x.view, y.view);
    return device.chooser()("a key", 3, [&](size_t index) {
      std::vector<CudaLaunch> launches(index == 1 ? 1 : 30, copy);
      if (index == 2) launches[0].threads = 4096;  // cannot be started
      return launches;
    });
  };
  {
    CudaDevice device(options);
    EXPECT_EQ(choose(device), 1u);
    EXPECT_EQ(choose(device), 1u);
  }
  CudaDevice other({.tuning = Tuning::off, .jit = options.jit});
  EXPECT_EQ(choose(other), 1u);  // from the disk
  CudaDevice fresh({.tuning = Tuning::off, .jit = {.cache_dir = "off"}});
  EXPECT_EQ(choose(fresh), 0u);
}

// In a process of its own: nothing runs on a context that was lost.
void lose_the_context() {
  CudaDevice device;
  const Owned x(device, {64}, 1);
  TensorView nowhere = x.view;
  nowhere.data = reinterpret_cast<void*>(uintptr_t{0x10000});
  const Node node{.op = Op::negate,
                  .inputs = {},
                  .attributes = {},
                  .outputs = {{DType::f32, {64}}},
                  .name = "scaled"};
  device.run(node, {&nowhere, 1}, {&x.view, 1});
  try {
    device.synchronize();
  } catch (const Error& error) {
    if (error.message().find("scaled") == std::string::npos) _exit(3);
    try {
      device.run(node, {&x.view, 1}, {&x.view, 1});
    } catch (const Error& again) {
      _exit(again.next_step().find("again") != std::string::npos ? 0 : 4);
    }
    _exit(5);
  }
  _exit(2);
}

TEST(CudaDevice, AnIllegalAddressIsReportedWithItsNode) {
  RIDGELINE_NEEDS_GPU();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(lose_the_context(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ridgeline::cuda_device_test

// An observer is told of every kernel, and changes nothing of the runs that it does not see.
#include "runtime/kernel_observer.h"

#include <gtest/gtest.h>

#include "graph/tensor.h"
#include "runtime/compiled_support.h"

namespace ridgeline::kernel_observer_test {
namespace {

class Counter : public KernelObserver {
 public:
  void before(const KernelRun&) override { ++begun; }
  void after(const KernelRun&) override { ++ended; }
  size_t begun = 0, ended = 0;
};

// A device that records, as a GPU does.
class RecordingDevice : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  bool can_record() const override { return true; }
  RecordedWork record(const std::function<void()>& work) override {
    work();
    return [this] { ++starts; };
  }
  size_t starts = 0;
};

// Two products: kernels that need no compiler.
Graph two_products() {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 4}});
  graph.mark_output("y", matmul(matmul(x, x), x).value());
  return graph;
}

TEST(KernelObserver, IsToldOfEveryKernelOfEitherExecutor) {
  const Graph graph = two_products();
  const Schedule schedule = eager_schedule(graph);
  const Plan plan = make_plan(graph);
  CpuDevice device({.threads = 1});
  EagerExecutor eager(graph, schedule, device);
  CompiledExecutor compiled(graph, plan, device);
  const auto expect_two = [&](auto& executor) {
    testing::upload(device, executor.input("x"), std::vector<double>(16, 0.5));
    Counter counter;
    executor.set_observer(&counter);
    executor.run_all();
    executor.set_observer(nullptr);
    executor.run_all();
    EXPECT_EQ(counter.begun, 2u);
    EXPECT_EQ(counter.ended, 2u);
  };
  expect_two(eager);
  expect_two(compiled);
}

TEST(KernelObserver, ThatTakesRecordingsSeesThemBeingMadeAndStarted) {
  class Recordings : public Counter {
   public:
    bool takes_recordings() const override { return true; }
    void begin_recording() override { seen_before = begun; }
    void end_recording() override { recorded = begun - seen_before; }
    void before_start() override { ++starts; }
    size_t seen_before = 0, recorded = 0, starts = 0;
  };
  const Graph graph = two_products();
  const Plan plan = make_plan(graph);
  RecordingDevice device(CpuOptions{.threads = 1});
  CompiledExecutor executor(graph, plan, device);
  testing::upload(device, executor.input("x"), std::vector<double>(16, 0.5));
  Recordings observer;
  executor.set_observer(&observer);
  for (int run = 0; run < 4; ++run) executor.run_all();
  executor.set_observer(nullptr);
  EXPECT_EQ(observer.begun, 4u);  // of the first run, and while it was recorded
  EXPECT_EQ(observer.recorded, 2u);
  EXPECT_EQ(observer.starts, 3u);
  EXPECT_EQ(device.starts, 3u);
}

TEST(KernelObserver, ARunThatIsObservedIsNotTheOneThatWouldBeRecorded) {
  const Graph graph = two_products();
  const Plan plan = make_plan(graph);
  RecordingDevice device(CpuOptions{.threads = 1});
  CompiledExecutor executor(graph, plan, device);
  testing::upload(device, executor.input("x"), std::vector<double>(16, 0.5));
  executor.run_all();
  Counter counter;
  executor.set_observer(&counter);
  executor.run_all();
  executor.set_observer(nullptr);
  executor.run_all();
  executor.run_all();
  EXPECT_EQ(device.starts, 2u);
}

TEST(Recording, IsMadeByTheFirstRunThatCanBeRecordedAfterOneOfPoisonedResults) {
  const Graph graph = two_products();
  const Plan plan = make_plan(graph);
  RecordingDevice device(CpuOptions{.threads = 1});
  CompiledExecutor executor(graph, plan, device);
  testing::upload(device, executor.input("x"), std::vector<double>(16, 0.5));
  executor.run_all();
  executor.set_poison(true);
  executor.run_all();
  executor.set_poison(false);
  EXPECT_EQ(device.starts, 0u);
  executor.run_all();
  executor.run_all();
  EXPECT_EQ(device.starts, 2u);
}

}  // namespace
}  // namespace ridgeline::kernel_observer_test

#include "profile/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

TEST(ThreadSpans, EveryThreadThatWorkedHasOneAndOthersHaveNone) {
  ThreadPool pool(2);
  std::vector<std::vector<ThreadSpan>> spans;
  pool.set_spans(&spans);
  ASSERT_EQ(spans.size(), 2u);
  std::atomic<int> entered{0};
  pool.for_each(2, [&](int64_t, int) {  // neither thread can do both
    ++entered;
    while (entered < 2) std::this_thread::yield();
  });
  ASSERT_EQ(spans[0].size(), 1u);
  ASSERT_EQ(spans[1].size(), 1u);
  for (const auto& of_thread : spans) EXPECT_GE(of_thread[0].end_ns, of_thread[0].begin_ns);
  pool.for_each(1, [](int64_t, int) {});
  EXPECT_EQ(spans[0].size(), 2u);
  EXPECT_EQ(spans[1].size(), 1u);
  pool.set_spans(nullptr);
  pool.for_each(1, [](int64_t, int) {});
  EXPECT_EQ(spans[0].size(), 2u);
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

// A tracer of a GPU that does what it is told at once: a kernel for every call, and for the start
// of a recording one for every kernel that was recorded.
class FakeTracer : public ActivityTracer {
 public:
  std::string description() const override { return "a fake"; }
  int64_t now_ns() const override { return ++now_; }
  void begin(uint64_t mark) override { marks_.push_back(mark); }
  void end() override {
    const uint64_t mark = marks_.back();
    marks_.pop_back();
    if (is_recording) {
      const uint64_t node = nodes_.size() + 1;
      nodes_.push_back(node);
      if (knows_nodes) activity_.graph_marks[node] = mark;
      ++activity_.captured;
      return;
    }
    const uint32_t correlation = ++correlation_;
    activity_.marks[correlation] = mark;
    const bool is_start = std::exchange(starts, false);
    if (fills_before) {
      DeviceWork work;
      work.kind = DeviceWork::Kind::fill;
      work.begin_ns = ++now_;
      work.end_ns = now_ += 10;
      work.correlation = correlation;
      activity_.work.push_back(work);
    }
    for (size_t i = 0; i < (is_start ? nodes_.size() : 1); ++i) {
      DeviceWork work;
      work.name = "kernel";
      work.begin_ns = ++now_;
      work.end_ns = ++now_;
      work.correlation = correlation;
      work.graph_node = is_start ? nodes_[i] : 0;
      activity_.work.push_back(work);
    }
  }
  void launch_on_its_own() {
    DeviceWork work;
    work.name = "somebody's_gemm";
    work.begin_ns = ++now_;
    work.end_ns = ++now_;
    activity_.work.push_back(work);
  }
  Activity take() override {
    Activity taken = activity_;
    activity_.work.clear();
    activity_.marks.clear();
    return taken;
  }
  bool stop() override { return true; }

  bool is_recording = false;
  bool starts = false;  // the next call is the start of a recording
  bool knows_nodes = true;
  bool fills_before = false;  // each call is a long memset and a kernel

 private:
  mutable int64_t now_ = 0;
  uint32_t correlation_ = 0;
  std::vector<uint64_t> marks_, nodes_;
  Activity activity_;
};

class FakeGpu : public CpuDevice {
 public:
  explicit FakeGpu(FakeTracer& tracer) : CpuDevice({.threads = 1}), tracer_(tracer) {}
  bool has_queue() const override { return true; }
  bool can_record() const override { return true; }
  RecordedWork record(const std::function<void()>& work) override {
    tracer_.is_recording = true;
    work();
    tracer_.is_recording = false;
    return [this] { tracer_.starts = true; };
  }

 private:
  FakeTracer& tracer_;
};

TEST(Recorder, MapsKernelsThatAreStartedByThemselvesAndInLaunchGraphs) {
  for (const Mode mode : {Mode::vanilla, Mode::flash, Mode::compiled}) {
    FakeTracer tracer;
    FakeGpu device(tracer);
    Executable executable(training_step(tiny_transformer()), device, {.mode = mode});
    executable.prepare();
    testing::fill_inputs(executable, device);
    const Profile profile = record_profile(executable, device, &tracer, {});
    EXPECT_EQ(profile.source, "a fake");
    EXPECT_EQ(profile.unmapped, 0u);
    EXPECT_EQ(profile.invocations.size(), 6 * profile.kernels.size());
    EXPECT_EQ(profile.captured, mode == Mode::compiled ? profile.kernels.size() : 0);
    for (size_t i = 0; i < profile.invocations.size(); ++i) {
      EXPECT_EQ(profile.invocations[i].step, i / profile.kernels.size());
      EXPECT_EQ(profile.invocations[i].kernel, i % profile.kernels.size());
    }
    EXPECT_TRUE(launch_verdict(profile));
  }
}

TEST(Recorder, TheCostOfACallIsThatOfItsKernelAndNotOfAMemsetBefore) {
  FakeTracer tracer;
  tracer.fills_before = true;
  FakeGpu device(tracer);
  Executable executable(training_step(tiny_transformer()), device, {.mode = Mode::flash});
  executable.prepare();
  testing::fill_inputs(executable, device);
  const Profile profile = record_profile(executable, device, &tracer, {});
  ASSERT_EQ(profile.invocations.size(), 2 * 6 * profile.kernels.size());
  for (const Invocation& each : profile.invocations)
    EXPECT_EQ(each.leads, each.work.kind == DeviceWork::Kind::kernel);
}

TEST(Recorder, CountsWhatCannotBeMapped) {
  FakeTracer tracer;
  tracer.knows_nodes = false;
  FakeGpu device(tracer);
  Executable executable(training_step(tiny_transformer()), device, {.mode = Mode::compiled});
  executable.prepare();
  testing::fill_inputs(executable, device);
  const auto step = [&] {
    executable.run();
    tracer.launch_on_its_own();
  };
  const Profile profile = record_profile(executable, device, &tracer, {.step = step});
  EXPECT_EQ(profile.unmapped, profile.invocations.size());
  EXPECT_EQ(profile.invocations.size(), 6 * (profile.kernels.size() + 1));
  size_t gemms = 0;
  for (const Invocation& each : profile.invocations) gemms += each.category == Category::gemm;
  EXPECT_EQ(gemms, 6u);  // by its name
}

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

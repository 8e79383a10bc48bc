// Threads that share a context of a GPU: what one of them compiles holds up no other. The driver is
// a stand-in, the compiler is real and is held where a test wants it.
#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "api/context.h"
#include "api/described.h"
#include "api/stand_in_calls.h"
#include "kernels/cuda/params.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline::threads_test {
namespace {

using namespace api_testing;

// A context whose kernels are compiled after `before`, or as `before` has rewritten them.
ContextPointer gpu_context(TextHook before) {
  ContextPointer context(new rl_context{.device = {RL_CUDA, 0}, .runs = nullptr});
  context->runs = open_cuda(CudaOptions{.jit = {.cache_dir = "off", .rewrite = std::move(before)}});
  return context;
}

// Something that one thread waits for, but not without end: a test that fails is no test that
// hangs.
class Signal {
 public:
  void give() {
    if (!given_.exchange(true)) promise_.set_value();
  }
  bool comes(std::chrono::milliseconds within = std::chrono::seconds(30)) const {
    return future_.wait_for(within) == std::future_status::ready;
  }

 private:
  std::atomic<bool> given_ = false;
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future();
};

bool is_forward(const std::string& entry) {
  return contains(entry, "forward");
}

TEST(Child, DISABLED_TwoThreadsCompileAtOnce) {
  Signal forward, backward;
  const ContextPointer context =
      gpu_context([&](const std::string& entry, const std::string& text) {
        (is_forward(entry) ? forward : backward).give();
        EXPECT_TRUE((is_forward(entry) ? backward : forward).comes()) << entry << " is alone";
        return text;
      });
  GpuProblem problem;
  std::jthread other(
      [&] { EXPECT_OK(rl_attention_backward_warm_up(context.get(), &problem.backward)); });
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
}

TEST(Child, DISABLED_PreparedCallsRunWhileAnotherCompiles) {
  Signal compiles, ran;
  const ContextPointer context =
      gpu_context([&](const std::string& entry, const std::string& text) {
        if (is_forward(entry)) return text;
        compiles.give();
        EXPECT_TRUE(ran.comes()) << "a run waits for the compiler";
        return text;
      });
  GpuProblem problem;
  rl_attention_call* call = nullptr;
  EXPECT_OK(rl_attention_forward_prepare(context.get(), &problem.forward, &call));
  std::jthread other([&] { EXPECT_OK(rl_attention_backward(context.get(), &problem.backward)); });
  EXPECT_TRUE(compiles.comes());
  rl_attention_run run = {sizeof run, call, nullptr, nullptr, 0, {}};
  for (size_t i = 0; i < 5; ++i) run.data[i] = problem.tensors[i].data;
  EXPECT_OK(rl_attention_call_run(&run));
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  EXPECT_EQ(counts().launches, 2);
  ran.give();
  other.join();
  rl_attention_call_destroy(call);
}

TEST(Child, DISABLED_AKernelIsCompiledOnce) {
  Signal compiles, twice;
  std::atomic<int> compilations = 0;
  const ContextPointer context = gpu_context([&](const std::string&, const std::string& text) {
    if (++compilations > 1) twice.give();
    compiles.give();
    twice.comes(std::chrono::milliseconds(500));
    return text;
  });
  GpuProblem one, scaled;
  scaled.forward.scale = 0.5;  // another call, of the same kernel
  std::jthread first([&] { EXPECT_OK(rl_attention_forward_warm_up(context.get(), &one.forward)); });
  EXPECT_TRUE(compiles.comes());
  std::jthread second(
      [&] { EXPECT_OK(rl_attention_forward_warm_up(context.get(), &one.forward)); });
  EXPECT_OK(rl_attention_forward_warm_up(context.get(), &scaled.forward));
  first.join();
  second.join();
  EXPECT_EQ(compilations, 1);
  EXPECT_EQ(counts().loads, 1);
}

TEST(Child, DISABLED_AFailureIsOneCallsOwn) {
  Signal compiles;
  std::atomic<int> compilations = 0;
  const ContextPointer context = gpu_context([&](const std::string&, const std::string& text) {
    const bool fails = ++compilations == 1;
    compiles.give();
    return fails ? "#error planted" : text;
  });
  GpuProblem problem;
  std::jthread first([&] {
    EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_ERROR_INTERNAL);
    EXPECT_TRUE(contains(rl_last_error(), "planted")) << rl_last_error();
  });
  EXPECT_TRUE(compiles.comes());
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  first.join();
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  EXPECT_EQ(compilations, 2);
  EXPECT_EQ(counts().launches, 2);
}

TEST(Child, DISABLED_NothingIsCompiledForACapture) {
  std::atomic<int> compilations = 0;
  const ContextPointer context = gpu_context([&](const std::string&, const std::string& text) {
    ++compilations;
    return text;
  });
  int stream = 0;
  GpuProblem problem;
  problem.forward.uses_stream = 1;
  problem.forward.stream = &stream;
  stand_in<void(void*)>("fake_gpu_capture")(&stream);
  rl_attention_call* call = nullptr;
  EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_ERROR_NOT_READY);
  EXPECT_EQ(rl_attention_forward_warm_up(context.get(), &problem.forward), RL_ERROR_NOT_READY);
  EXPECT_EQ(rl_attention_forward_prepare(context.get(), &problem.forward, &call),
            RL_ERROR_NOT_READY);
  EXPECT_EQ(compilations, 0);
}

std::atomic<const void*> queries_of_last_launch = nullptr;

// A run whose addresses need another kernel uses these addresses, though others run the call
// before that kernel is there.
TEST(Child, DISABLED_ARunKeepsItsMemory) {
  Signal compiles, ran;
  std::atomic<int> compilations = 0;
  const ContextPointer context = gpu_context([&](const std::string&, const std::string& text) {
    if (++compilations == 1) return text;
    compiles.give();
    EXPECT_TRUE(ran.comes());
    return text;
  });
  stand_in<void(void (*)(void**))>("fake_gpu_watch_launches")([](void** parameters) {
    queries_of_last_launch = static_cast<const FlashForwardParams*>(parameters[0])->q.data;
  });
  GpuProblem problem;
  rl_attention_call* call = nullptr;
  EXPECT_OK(rl_attention_forward_prepare(context.get(), &problem.forward, &call));
  rl_attention_run run = {sizeof run, call, nullptr, nullptr, 0, {}};
  for (size_t i = 0; i < 5; ++i) run.data[i] = problem.tensors[i].data;
  rl_attention_run shifted = run;
  shifted.data[0] = static_cast<char*>(run.data[0]) + 2;
  std::jthread other([&] { EXPECT_OK(rl_attention_call_run(&shifted)); });
  EXPECT_TRUE(compiles.comes());
  EXPECT_OK(rl_attention_call_run(&run));
  EXPECT_EQ(queries_of_last_launch, run.data[0]);
  ran.give();
  other.join();
  EXPECT_EQ(queries_of_last_launch, shifted.data[0]);
  EXPECT_OK(rl_attention_call_run(&run));
  EXPECT_EQ(queries_of_last_launch, run.data[0]);
  EXPECT_EQ(compilations, 2);
  rl_attention_call_destroy(call);
}

TEST(LibraryThreads, CompileAtTheSameTime) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("TwoThreadsCompileAtOnce");
}

TEST(LibraryThreads, RunPreparedCallsWhileAnotherCompiles) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("PreparedCallsRunWhileAnotherCompiles");
}

TEST(LibraryThreads, ShareWhatOneOfThemCompiles) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("AKernelIsCompiledOnce");
}

TEST(LibraryThreads, DoNotInheritTheFailureOfAnother) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("AFailureIsOneCallsOwn");
}

TEST(LibraryThreads, CompileNothingForACapture) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("NothingIsCompiledForACapture");
}

TEST(LibraryThreads, RunACallOnTheirOwnMemory) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("ARunKeepsItsMemory");
}

}  // namespace
}  // namespace ridgeline::threads_test

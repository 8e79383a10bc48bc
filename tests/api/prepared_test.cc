// Calls of the C interface that are prepared once and run on memory that each run names.
#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "api/described.h"

namespace ridgeline {
namespace {

using namespace flash_testing;
using api_testing::ContextPointer;
using api_testing::cpu_context;
using api_testing::Problem;

struct DestroyCall {
  void operator()(rl_attention_call* call) const { rl_attention_call_destroy(call); }
};
using CallPointer = std::unique_ptr<rl_attention_call, DestroyCall>;

CallPointer prepared(rl_context* context, const rl_attention_forward_params& params) {
  rl_attention_call* call = nullptr;
  EXPECT_EQ(rl_attention_forward_prepare(context, &params, &call), RL_OK) << rl_last_error();
  return CallPointer(call);
}

CallPointer prepared(rl_context* context, const rl_attention_backward_params& params) {
  rl_attention_call* call = nullptr;
  EXPECT_EQ(rl_attention_backward_prepare(context, &params, &call), RL_OK) << rl_last_error();
  return CallPointer(call);
}

rl_attention_run run_of(const CallPointer& call, std::initializer_list<const rl_tensor*> tensors) {
  rl_attention_run run = {};
  run.size = offsetof(rl_attention_run, data) + tensors.size() * sizeof(void*);
  run.call = call.get();
  size_t count = 0;
  for (const rl_tensor* tensor : tensors) run.data[count++] = tensor->data;
  return run;
}

rl_attention_run forward_run(const CallPointer& call, const Problem& problem) {
  const rl_attention_forward_params& p = problem.forward;
  return run_of(call, {p.q, p.k, p.v, p.out, p.log_sum_exp});
}

rl_attention_run backward_run(const CallPointer& call, const Problem& problem) {
  const rl_attention_backward_params& p = problem.backward;
  return run_of(call, {p.q, p.k, p.v, p.out, p.log_sum_exp, p.d_out, p.d_q, p.d_k, p.d_v});
}

const Config kConfig = {.heads = 4, .key_heads = 2, .queries = 33, .keys = 40, .head_dim = 16};

TEST(LibraryPreparedCalls, RunOnTheMemoryOfEachRun) {
  const ContextPointer context = cpu_context(2);
  Problem layout(kConfig);  // its memory is used by no run
  const CallPointer forward = prepared(context.get(), layout.forward);
  const CallPointer backward = prepared(context.get(), layout.backward);
  for (uint32_t seed : {1, 2, 3}) {
    const Inputs in = random_inputs(kConfig, seed);
    Problem problem(kConfig);
    problem.assign(in);
    const rl_attention_run first = forward_run(forward, problem);
    ASSERT_EQ(rl_attention_call_run(&first), RL_OK) << rl_last_error();
    const rl_attention_run second = backward_run(backward, problem);
    ASSERT_EQ(rl_attention_call_run(&second), RL_OK) << rl_last_error();
    expect_right(kConfig, in, oracle(kConfig, in), naive(kConfig, in), problem.run);
  }
}

// Kernels are chosen by remainders of addresses: a run at others prepares again by itself.
TEST(LibraryPreparedCalls, RunAtAddressesOfOtherRemainders) {
  const ContextPointer context = cpu_context(1);
  const Inputs in = random_inputs(kConfig, 5);
  Problem problem(kConfig);
  problem.assign(in);
  ASSERT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_OK) << rl_last_error();
  const auto elements = static_cast<size_t>(element_count(problem.queries));
  std::vector<float> expected(elements), moved(elements + 8);
  std::memcpy(expected.data(), problem.forward.out->data, elements * sizeof(float));
  const CallPointer call = prepared(context.get(), problem.forward);
  for (size_t shift : {0, 1, 2, 3, 5}) {
    rl_attention_run run = forward_run(call, problem);
    run.data[3] = moved.data() + shift;
    ASSERT_EQ(rl_attention_call_run(&run), RL_OK) << rl_last_error();
    EXPECT_EQ(std::memcmp(moved.data() + shift, expected.data(), elements * sizeof(float)), 0)
        << "shift " << shift;
  }
}

TEST(LibraryPreparedCalls, ServeTwoThreads) {
  const ContextPointer context = cpu_context(1);
  Problem layout(kConfig);
  const CallPointer call = prepared(context.get(), layout.forward);
  const auto work = [&](uint32_t seed) {
    const Inputs in = random_inputs(kConfig, seed);
    Problem problem(kConfig), expected(kConfig);
    problem.assign(in);
    expected.assign(in);
    const ContextPointer own = cpu_context(1);
    EXPECT_EQ(rl_attention_forward(own.get(), &expected.forward), RL_OK) << rl_last_error();
    const auto bytes = static_cast<size_t>(element_count(problem.queries)) * sizeof(float);
    for (int i = 0; i < 50; ++i) {
      const rl_attention_run run = forward_run(call, problem);
      EXPECT_EQ(rl_attention_call_run(&run), RL_OK) << rl_last_error();
      ASSERT_EQ(std::memcmp(problem.forward.out->data, expected.forward.out->data, bytes), 0);
    }
  };
  std::thread other(work, 7);
  work(8);
  other.join();
}

// Runs of one thread prepare the call again while the other's begin.
TEST(LibraryPreparedCalls, ServeTwoThreadsAtAddressesOfOtherRemainders) {
  const ContextPointer context = cpu_context(1);
  Problem problem({.queries = 1, .keys = 1, .head_dim = 1});
  const CallPointer call = prepared(context.get(), problem.forward);
  const auto work = [&] {
    float out[2] = {}, log_sum_exp = 0;
    rl_attention_run run = forward_run(call, problem);
    run.data[4] = &log_sum_exp;
    for (int i = 0; i < 100; ++i) {
      run.data[3] = &out[i % 2];
      EXPECT_EQ(rl_attention_call_run(&run), RL_OK) << rl_last_error();
    }
  };
  std::thread other(work);
  work();
  other.join();
}

TEST(LibraryPreparedCalls, NameWhatIsWrong) {
  const ContextPointer context = cpu_context(1);
  Problem problem(kConfig);
  const CallPointer call = prepared(context.get(), problem.forward);
  const auto expect = [&](const rl_attention_run& run, const char* words) {
    EXPECT_EQ(rl_attention_call_run(&run), RL_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(std::string(rl_last_error()).find(words) != std::string::npos) << rl_last_error();
  };
  const rl_attention_run good = forward_run(call, problem);
  rl_attention_run run = good;
  run.size -= sizeof(void*);
  expect(run, "run.size is");
  run = good;
  run.data[1] = nullptr;
  expect(run, "k has no memory");
  run = good;
  run.data[2] = static_cast<char*>(run.data[2]) + 1;
  expect(run, "v is at address");
  run = good;
  run.data[3] = run.data[0];
  expect(run, "out shares memory with q");
  run = good;
  run.call = nullptr;
  expect(run, "the call is null");
  EXPECT_EQ(rl_attention_call_run(nullptr), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rl_attention_call_run(&good), RL_OK) << "and goes on: " << rl_last_error();
  EXPECT_EQ(rl_attention_forward_prepare(context.get(), &problem.forward, nullptr),
            RL_ERROR_INVALID_ARGUMENT);
  rl_attention_call_destroy(nullptr);
}

}  // namespace
}  // namespace ridgeline

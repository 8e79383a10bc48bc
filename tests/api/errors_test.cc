// What the C interface refuses: a status, and a message that names the value.
#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "api/described.h"
#include "base/error.h"
#include "support/expect.h"
#include "support/gpu.h"

namespace ridgeline::errors_test {
namespace {

using api_testing::ContextPointer;
using api_testing::cpu_context;
using api_testing::Problem;
using flash_testing::Config;

const Config kConfig = {.batch = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = 6};

// A change of a problem that works, and what both calls or one of them then answer.
struct Refusal {
  const char* what;
  std::function<void(Problem&)> change;
  rl_status status;
  const char* message;
};

void expect_refusals(const std::vector<Refusal>& refusals, bool backward) {
  const ContextPointer context = cpu_context(1);
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.what);
    Problem problem(kConfig);
    problem.assign(random_inputs(kConfig, 1));
    refusal.change(problem);
    const auto bytes = problem.run.out.bytes();
    const rl_status status = backward ? rl_attention_backward(context.get(), &problem.backward)
                                      : rl_attention_forward(context.get(), &problem.forward);
    EXPECT_STREQ(rl_status_name(status), rl_status_name(refusal.status)) << rl_last_error();
    EXPECT_HAS(rl_last_error(), refusal.message);
    EXPECT_EQ(problem.run.out.bytes(), bytes) << "something was written";
  }
}

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

const std::vector<Refusal> kOfBoth = {
    {"no k", [](Problem& p) { p.forward.k = p.backward.k = nullptr; }, RL_ERROR_INVALID_ARGUMENT,
     "k is null"},
    {"no data", [](Problem& p) { p.q.edit().data = nullptr; }, RL_ERROR_INVALID_ARGUMENT,
     "q has no memory"},
    {"no shape", [](Problem& p) { p.v.edit().shape = nullptr; }, RL_ERROR_INVALID_ARGUMENT,
     "v has no shape"},
    {"three axes", [](Problem& p) { p.q.edit().ndim = 3; }, RL_ERROR_INVALID_ARGUMENT,
     "expected [batch, heads, queries, head_dim]"},
    {"a billion axes", [](Problem& p) { p.q.edit().ndim = 1 << 30; }, RL_ERROR_INVALID_ARGUMENT,
     "q has 1073741824 axes"},
    {"an empty axis", [](Problem& p) { p.k.shape()[2] = 0; }, RL_ERROR_INVALID_ARGUMENT,
     "use sizes from 1 on"},
    {"a negative size", [](Problem& p) { p.k.shape()[2] = -6; }, RL_ERROR_INVALID_ARGUMENT,
     "k has shape [2, 2, -6, 16]"},
    {"a size near 2^63", [](Problem& p) { p.k.shape()[2] = kHuge; }, RL_ERROR_INVALID_ARGUMENT,
     "more elements than memory can hold"},
    {"a stride near 2^63", [](Problem& p) { p.k.strides()[2] = kHuge; }, RL_ERROR_INVALID_ARGUMENT,
     "reach beyond all memory"},
    {"a negative stride", [](Problem& p) { p.v.strides()[2] = -16; }, RL_ERROR_INVALID_ARGUMENT,
     "strides are not negative"},
    {"keys that repeat", [](Problem& p) { p.v.strides()[2] = 0; }, RL_ERROR_INVALID_ARGUMENT,
     "0 is served along batch and heads only"},
    {"an offset that wraps",
     [](Problem& p) { p.v.edit().byte_offset = std::numeric_limits<uint64_t>::max() - 63; },
     RL_ERROR_INVALID_ARGUMENT, "beyond the last address"},
    {"a misaligned address", [](Problem& p) { p.v.edit().byte_offset = 2; },
     RL_ERROR_INVALID_ARGUMENT, "no multiple of its 4 bytes"},
    {"doubles", [](Problem& p) { p.q.edit().dtype.bits = 64; }, RL_ERROR_UNSUPPORTED,
     "q has dtype {code 2, bits 64, lanes 1}"},
    {"two lanes", [](Problem& p) { p.q.edit().dtype.lanes = 2; }, RL_ERROR_UNSUPPORTED, "lanes 2"},
    {"two dtypes",
     [](Problem& p) {
       p.k.edit().dtype = {RL_BFLOAT, 16, 1};
     },
     RL_ERROR_INVALID_ARGUMENT, "k is bf16, expected fp32"},
    {"a tensor of a GPU",
     [](Problem& p) {
       p.k.edit().device = {RL_CUDA, 0};
     },
     RL_ERROR_INVALID_ARGUMENT, "k is on device {type 2, id 0}, the context on {type 1, id 0}"},
    {"three key heads", [](Problem& p) { p.k.shape()[1] = p.v.shape()[1] = 3; },
     RL_ERROR_INVALID_ARGUMENT, "4 query heads cannot share 3 key heads"},
    {"a short v", [](Problem& p) { p.v.shape()[2] = 5; }, RL_ERROR_INVALID_ARGUMENT,
     "v has shape [2, 2, 5, 16], expected [2, 2, 6, 16]"},
    {"a wide head",
     [](Problem& p) {
       p.q.shape()[3] = 300;
       p.q.strides() = contiguous_strides(p.q.shape());
     },
     RL_ERROR_UNSUPPORTED, "head_dim is 300, and the kernels support up to 256"},
    {"a mask of no name", [](Problem& p) { p.forward.causal = p.backward.causal = 3; },
     RL_ERROR_INVALID_ARGUMENT, "causal is 3"},
    {"a negative window", [](Problem& p) { p.forward.window = p.backward.window = -1; },
     RL_ERROR_INVALID_ARGUMENT, "window is -1"},
    {"a window on both sides", [](Problem& p) { p.forward.window = p.backward.window = 4; },
     RL_ERROR_UNSUPPORTED, "a window on both sides is not served"},
    {"no scale", [](Problem& p) { p.forward.scale = p.backward.scale = std::nan(""); },
     RL_ERROR_INVALID_ARGUMENT, "scale is nan"},
    {"a scale that fp32 cannot hold",
     [](Problem& p) { p.forward.scale = p.backward.scale = 1e300; }, RL_ERROR_INVALID_ARGUMENT,
     "scale is 1e+300"},
    {"a third determinism",
     [](Problem& p) { p.forward.deterministic = p.backward.deterministic = 2; },
     RL_ERROR_INVALID_ARGUMENT, "deterministic is 2"},
    {"a stream on the CPU", [](Problem& p) { p.forward.uses_stream = p.backward.uses_stream = 1; },
     RL_ERROR_INVALID_ARGUMENT, "the CPU, which has no streams"},
    {"half a stream", [](Problem& p) { p.forward.uses_stream = p.backward.uses_stream = 2; },
     RL_ERROR_INVALID_ARGUMENT, "uses_stream is 2"},
    {"reserved bytes", [](Problem& p) { p.forward.reserved = p.backward.reserved = 1; },
     RL_ERROR_INVALID_ARGUMENT, "reserved is 1"},
    {"operands of no function",
     [](Problem& p) { p.forward.operand_count = p.backward.operand_count = 1; },
     RL_ERROR_INVALID_ARGUMENT, "operand_count is 1, the score function has 0"},
    {"a size without a workspace",
     [](Problem& p) { p.forward.workspace_bytes = p.backward.workspace_bytes = 8; },
     RL_ERROR_INVALID_ARGUMENT, "workspace is null"},
    {"a misaligned workspace",
     [](Problem& p) {
       p.forward.workspace = p.backward.workspace = reinterpret_cast<void*>(uintptr_t{0x1008});
     },
     RL_ERROR_INVALID_ARGUMENT, "align it to 256 bytes"},
    {"a struct of an old size", [](Problem& p) { p.forward.size = p.backward.size = 8; },
     RL_ERROR_INVALID_ARGUMENT, "params.size is 8"},
    {"a struct of no size", [](Problem& p) { p.forward.size = p.backward.size = SIZE_MAX; },
     RL_ERROR_INVALID_ARGUMENT, "params.size is 18446744073709551615"},
};

TEST(LibraryErrors, OfTheForwardHaveAStatusAndAName) {
  expect_refusals(kOfBoth, false);
  expect_refusals(
      {{"a result over an input", [](Problem& p) { p.forward.out = p.forward.q; },
        RL_ERROR_INVALID_ARGUMENT, "out shares memory with q"},
       {"a result that repeats", [](Problem& p) { p.out.strides()[0] = 0; },
        RL_ERROR_INVALID_ARGUMENT, "elements of this result would share memory"},
       {"a log-sum-exp of 16 bits", [](Problem& p) { p.log_sum_exp.edit().dtype.bits = 16; },
        RL_ERROR_INVALID_ARGUMENT, "log_sum_exp is fp16, expected fp32"},
       {"a small workspace",
        [](Problem& p) {
          p.forward.log_sum_exp = nullptr;
          p.forward.workspace = p.q.edit().data;
          p.forward.workspace_bytes = 1;
        },
        RL_ERROR_INVALID_ARGUMENT, "workspace has 1 bytes, 256 are needed"}},
      false);
}

TEST(LibraryErrors, OfTheBackwardHaveAStatusAndAName) {
  expect_refusals(kOfBoth, true);
  expect_refusals({{"no log-sum-exp", [](Problem& p) { p.backward.log_sum_exp = nullptr; },
                    RL_ERROR_INVALID_ARGUMENT, "log_sum_exp is null"},
                   {"two results in one", [](Problem& p) { p.backward.d_v = p.backward.d_k; },
                    RL_ERROR_INVALID_ARGUMENT, "d_v shares memory with d_k"},
                   {"a result over an input", [](Problem& p) { p.backward.d_q = p.backward.d_out; },
                    RL_ERROR_INVALID_ARGUMENT, "d_q shares memory with d_out"}},
                  true);
}

TEST(LibraryErrors, NameWhatANewerStructAsksFor) {
  const ContextPointer context = cpu_context(1);
  Problem problem(kConfig);
  problem.assign(random_inputs(kConfig, 1));
  struct Newer {
    rl_attention_forward_params known;
    int64_t unknown;
  } newer = {problem.forward, 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(rl_attention_forward(context.get(), &newer.known), RL_OK) << rl_last_error();
  newer.unknown = 1;
  EXPECT_EQ(rl_attention_forward(context.get(), &newer.known), RL_ERROR_UNSUPPORTED);
  EXPECT_HAS(rl_last_error(), "does not know");
}

// A program that was built with the first header knows nothing of score functions and streams.
TEST(LibraryErrors, AreNotMetByStructsOfTheFirstHeader) {
  const ContextPointer context = cpu_context(1);
  Problem problem(kConfig);
  problem.assign(random_inputs(kConfig, 1));
  problem.forward.size = offsetof(rl_attention_forward_params, score);
  problem.backward.size = offsetof(rl_attention_backward_params, score);
  problem.forward.reserved = problem.backward.reserved = 77;  // somebody else's memory
  EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_OK) << rl_last_error();
  EXPECT_EQ(rl_attention_backward(context.get(), &problem.backward), RL_OK) << rl_last_error();
}

TEST(LibraryErrors, NameNullArguments) {
  const ContextPointer context = cpu_context(1);
  Problem problem(kConfig);
  EXPECT_EQ(rl_attention_forward(nullptr, &problem.forward), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(rl_last_error()).find("context is null"), 0u) << rl_last_error();
  EXPECT_EQ(rl_attention_backward(context.get(), nullptr), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(rl_last_error()).find("params is null"), 0u) << rl_last_error();
  EXPECT_EQ(rl_attention_forward_workspace(context.get(), &problem.forward, nullptr),
            RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rl_context_synchronize(nullptr), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rl_context_create(nullptr, nullptr), RL_ERROR_INVALID_ARGUMENT);
  rl_context_destroy(nullptr);
}

TEST(LibraryErrors, OfContextsNameTheParameter) {
  const auto expect = [](rl_device device, int threads, int uses_stream, const char* message) {
    rl_context_params params = {};
    params.size = sizeof params;
    params.device = device;
    params.threads = threads;
    params.uses_stream = uses_stream;
    auto* context = reinterpret_cast<rl_context*>(8);
    EXPECT_EQ(rl_context_create(&params, &context), RL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(context, nullptr);
    EXPECT_HAS(rl_last_error(), message);
  };
  expect({0, 0}, 0, 0, "params.device is {type 0, id 0}");
  expect({RL_CPU, 1}, 0, 0, "params.device is {type 1, id 1}");
  expect({RL_CPU, 0}, -1, 0, "params.threads is -1");
  expect({RL_CPU, 0}, 1 << 20, 0, "params.threads is 1048576");
  expect({RL_CPU, 0}, 1, 1, "which has no streams");
  expect({RL_CPU, 0}, 1, 2, "params.uses_stream is 2");
}

TEST(LibraryErrors, SayThatThereIsNoGpu) {
  if (testing::why_no_gpu().empty()) GTEST_SKIP() << "there is one";
  rl_context_params params = {};
  params.size = sizeof params;
  params.device = {RL_CUDA, 0};
  rl_context* context = nullptr;
  const rl_status status = rl_context_create(&params, &context);
  EXPECT_TRUE(status == RL_ERROR_UNSUPPORTED || status == RL_ERROR_DEVICE ||
              status == RL_ERROR_INVALID_ARGUMENT)
      << rl_status_name(status);
  EXPECT_STRNE(rl_last_error(), "");
}

TEST(LibraryErrors, BelongToTheirThread) {
  rl_context_synchronize(nullptr);
  const std::string here = rl_last_error();
  std::thread([] {
    EXPECT_STREQ(rl_last_error(), "");
    rl_context_create(nullptr, nullptr);
  }).join();
  EXPECT_EQ(rl_last_error(), here);
}

TEST(LibraryTensors, HaveTheLayoutOfDlpack) {
  EXPECT_EQ(sizeof(rl_tensor), 48u);
  EXPECT_EQ(offsetof(rl_tensor, device), 8u);
  EXPECT_EQ(offsetof(rl_tensor, ndim), 16u);
  EXPECT_EQ(offsetof(rl_tensor, dtype), 20u);
  EXPECT_EQ(offsetof(rl_tensor, shape), 24u);
  EXPECT_EQ(offsetof(rl_tensor, strides), 32u);
  EXPECT_EQ(offsetof(rl_tensor, byte_offset), 40u);
  EXPECT_EQ(sizeof(rl_dtype), 4u);
  EXPECT_EQ(rl_version(), static_cast<uint32_t>(RL_VERSION));
}

}  // namespace
}  // namespace ridgeline::errors_test

// Attention through the C and C++ interfaces: values and all gradients against the fp64 oracle.
#include <gtest/gtest.h>
#include <ridgeline/attention.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <random>
#include <thread>
#include <vector>

#include "api/described.h"
#include "support/expect.h"

namespace ridgeline::attention_test {
namespace {

using namespace flash_testing;
using api_testing::ContextPointer;
using api_testing::cpu_context;
using api_testing::Problem;
using flash_testing::Layout;  // not that of plans
using Alignment = AttentionMask::Alignment;

void expect_right_results(rl_context* context, const Config& config, uint32_t seed,
                          bool deterministic = false) {
  SCOPED_TRACE(describe(config) + " seed " + std::to_string(seed));
  const Inputs in = random_inputs(config, seed);
  Problem problem(config);
  problem.assign(in);
  problem.backward.deterministic = deterministic ? 1 : 0;
  ASSERT_EQ(rl_attention_forward(context, &problem.forward), RL_OK) << rl_last_error();
  ASSERT_EQ(rl_attention_backward(context, &problem.backward), RL_OK) << rl_last_error();
  expect_right(config, in, oracle(config, in), naive(config, in), problem.run);
}

Config random_config(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  Config config;
  config.batch = pick({1, 2});
  config.key_heads = pick({1, 2, 3});
  config.heads = config.key_heads * pick({1, 2, 4});
  config.queries = pick({1, 7, 33, 64, 65, 100});
  config.keys = pick({1, 7, 33, 64, 65, 100});
  config.head_dim = pick({1, 8, 16, 20, 32, 64, 80});
  config.mask.causal = pick({0, 1, 1}) == 1;
  if (pick({0, 1}) == 1) config.mask.alignment = Alignment::bottom_right;
  if (config.mask.causal) config.mask.window = pick({0, 0, 1, 5, 40});
  config.dtype =
      static_cast<DType>(pick({static_cast<int64_t>(DType::f32), static_cast<int64_t>(DType::bf16),
                               static_cast<int64_t>(DType::f16)}));
  config.layout = static_cast<Layout>(pick({0, 1, 2}));
  return config;
}

void check_random_problems(uint32_t first, uint32_t count) {
  const ContextPointer context = cpu_context(2);
  for (uint32_t seed = first; seed < first + count; ++seed)
    expect_right_results(context.get(), random_config(seed), seed, seed % 2 == 0);
}

TEST(LibraryAttention, MatchesTheOracleOnRandomProblems) {
  check_random_problems(1, 40);
}

TEST(SlowLibraryAttention, MatchesTheOracleOnManyRandomProblems) {
  check_random_problems(1000, 400);
}

TEST(LibraryAttention, AlignsTheCausalMaskAtBothCorners) {
  const ContextPointer context = cpu_context(1);
  for (auto alignment : {Alignment::top_left, Alignment::bottom_right})
    for (auto [queries, keys] : {std::pair{20, 50}, {50, 20}})
      expect_right_results(
          context.get(),
          {.queries = queries, .keys = keys, .mask = {.causal = true, .alignment = alignment}}, 1);
}

// A window beyond every key is no window, whatever its number.
TEST(LibraryAttention, TakesTheLargestWindow) {
  const ContextPointer context = cpu_context(1);
  const Config config = {
      .queries = 30, .keys = 20, .mask = {.causal = true, .alignment = Alignment::bottom_right}};
  const Inputs in = random_inputs(config, 3);
  Problem problem(config);
  problem.assign(in);
  problem.forward.window = problem.backward.window = INT64_MAX;
  ASSERT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_OK) << rl_last_error();
  ASSERT_EQ(rl_attention_backward(context.get(), &problem.backward), RL_OK) << rl_last_error();
  expect_right(config, in, oracle(config, in), naive(config, in), problem.run);
}

TEST(LibraryAttention, ScalesTheScores) {
  const ContextPointer context = cpu_context(1);
  const Config config = {.queries = 9, .keys = 9};
  Inputs in = random_inputs(config, 1);
  Problem scaled(config), doubled(config);
  scaled.assign(in);
  scaled.forward.scale = 2 * scale_of(config);
  for (double& value : in.q) value *= 2;
  doubled.assign(in);
  ASSERT_EQ(rl_attention_forward(context.get(), &scaled.forward), RL_OK) << rl_last_error();
  ASSERT_EQ(rl_attention_forward(context.get(), &doubled.forward), RL_OK) << rl_last_error();
  EXPECT_LT(distance(scaled.run.out.values(), doubled.run.out.values()), 1e-6);
}

TEST(LibraryAttention, GivesTheSameOutputWithoutALogSumExp) {
  const ContextPointer context = cpu_context(2);
  const Config config = {.heads = 2, .key_heads = 2, .queries = 40, .keys = 40};
  const Inputs in = random_inputs(config, 1);
  Problem with(config), without(config), given(config);
  for (Problem* problem : {&with, &without, &given}) problem->assign(in);
  without.forward.log_sum_exp = given.forward.log_sum_exp = nullptr;
  size_t bytes = 1;
  ASSERT_EQ(rl_attention_forward_workspace(context.get(), &with.forward, &bytes), RL_OK);
  EXPECT_EQ(bytes, 0u);
  ASSERT_EQ(rl_attention_forward_workspace(context.get(), &given.forward, &bytes), RL_OK);
  EXPECT_GE(bytes, 2u * 40 * sizeof(float));
  alignas(256) std::array<std::byte, 4096> memory;
  ASSERT_LE(bytes, memory.size());
  given.forward.workspace = memory.data();
  given.forward.workspace_bytes = bytes;
  for (Problem* problem : {&with, &without, &given})
    ASSERT_EQ(rl_attention_forward(context.get(), &problem->forward), RL_OK) << rl_last_error();
  EXPECT_EQ(with.run.out.bytes(), without.run.out.bytes());
  EXPECT_EQ(with.run.out.bytes(), given.run.out.bytes());
  size_t backward_bytes = 1;
  ASSERT_EQ(rl_attention_backward_workspace(context.get(), &with.backward, &backward_bytes), RL_OK);
  EXPECT_EQ(backward_bytes, 0u);
}

TEST(LibraryAttention, ReadsKeysThatAllBatchesAndHeadsShare) {
  const ContextPointer context = cpu_context(1);
  const Config config = {
      .batch = 2, .heads = 4, .key_heads = 2, .queries = 12, .keys = 10, .head_dim = 8};
  Inputs in = random_inputs(config, 1);
  const size_t head = 10 * 8;
  for (std::vector<double>* values : {&in.k, &in.v})
    for (size_t i = head; i < values->size(); ++i) (*values)[i] = (*values)[i % head];
  Problem whole(config), shared(config);
  whole.assign(in);
  shared.assign(in);
  for (auto* tensor : {&shared.k, &shared.v}) tensor->strides()[0] = tensor->strides()[1] = 0;
  ASSERT_EQ(rl_attention_forward(context.get(), &whole.forward), RL_OK) << rl_last_error();
  ASSERT_EQ(rl_attention_forward(context.get(), &shared.forward), RL_OK) << rl_last_error();
  EXPECT_EQ(whole.run.out.bytes(), shared.run.out.bytes());
}

TEST(LibraryAttention, ServesTwoThreadsOnOneContext) {
  const ContextPointer context = cpu_context(2);
  const auto work = [&](uint32_t first) {
    for (uint32_t seed = first; seed < first + 15; ++seed)
      expect_right_results(context.get(), random_config(seed), seed);
  };
  std::thread other(work, 500);
  work(600);
  other.join();
}

// As Python's multiprocessing does: threads of the pool do not come along into the new process.
TEST(LibraryAttention, RunsOnInAProcessThatWasForked) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads after a fork";
#endif
  const ContextPointer context = cpu_context(3);
  const Config config = {.batch = 2, .heads = 2, .key_heads = 2, .queries = 100, .keys = 100};
  const Inputs in = random_inputs(config, 1);
  Problem problem(config);
  problem.assign(in);
  ASSERT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_OK) << rl_last_error();
  const auto before = problem.run.out.bytes();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a pool without threads would wait for ever
    problem.assign(in);
    const bool right = rl_attention_forward(context.get(), &problem.forward) == RL_OK &&
                       rl_attention_backward(context.get(), &problem.backward) == RL_OK &&
                       problem.run.out.bytes() == before;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(rl_attention_backward(context.get(), &problem.backward), RL_OK) << rl_last_error();
}

// One tensor [batch, sequence, heads of q, k and v, head_dim] holds all three gradients.
TEST(LibraryAttention, WritesGradientsThatInterleave) {
  constexpr int64_t kBatch = 2, kLength = 20, kHeads = 4, kKeyHeads = 2, kWidth = 16;
  constexpr int64_t kRow = (kHeads + 2 * kKeyHeads) * kWidth;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> packed(kBatch * kLength * kRow);
  for (float& value : packed) value = normal(random);
  const rl::Sizes queries = {kBatch, kHeads, kLength, kWidth};
  const rl::Sizes keys = {kBatch, kKeyHeads, kLength, kWidth};
  const rl::Sizes rows = {kBatch, kHeads, kLength};
  const rl::Sizes strides = {kLength * kRow, kWidth, kRow, 1};
  const auto in = [&](std::vector<float>& memory, int64_t head, const rl::Sizes& shape) {
    return rl::TensorView(memory.data() + head * kWidth, shape, strides);
  };
  std::vector<float> out(kBatch * kHeads * kLength * kWidth), lse(kBatch * kHeads * kLength);
  std::vector<float> d_out(out.size(), 1), d_packed(packed.size());
  rl::Context context({.threads = 2});
  rl::attention_forward(context, {.q = in(packed, 0, queries),
                                  .k = in(packed, kHeads, keys),
                                  .v = in(packed, kHeads + kKeyHeads, keys),
                                  .out = {out, queries},
                                  .log_sum_exp = {lse, rows}});
  rl::BackwardTensors backward = {.q = in(packed, 0, queries),
                                  .k = in(packed, kHeads, keys),
                                  .v = in(packed, kHeads + kKeyHeads, keys),
                                  .out = {out, queries},
                                  .log_sum_exp = {lse, rows},
                                  .d_out = {d_out, queries},
                                  .d_q = in(d_packed, 0, queries),
                                  .d_k = in(d_packed, kHeads, keys),
                                  .d_v = in(d_packed, kHeads + kKeyHeads, keys)};
  rl::attention_backward(context, backward);
  // The weights of a query sum up to 1, so the gradients of the values do to the outputs.
  double sum = 0;
  for (size_t i = 0; i < d_packed.size(); ++i)
    if (static_cast<int64_t>(i) % kRow >= (kHeads + kKeyHeads) * kWidth) sum += d_packed[i];
  EXPECT_NEAR(sum, static_cast<double>(out.size()), 1e-2);
  // One head further, and they do share elements.
  backward.d_k = in(d_packed, kHeads - 1, keys);
  try {
    rl::attention_backward(context, backward);
    FAIL() << "shared elements were not seen";
  } catch (const rl::Error& error) {
    EXPECT_EQ(error.status(), RL_ERROR_INVALID_ARGUMENT);
    EXPECT_HAS(error.what(), "shares memory");
  }
}

TEST(LibraryAttention, RefusesABufferThatIsSmallerThanItsShape) {
  std::vector<float> buffer(7);
  EXPECT_THROW(rl::TensorView(buffer, {1, 1, 2, 4}), std::invalid_argument);
  EXPECT_NO_THROW(rl::TensorView(buffer, {1, 1, 1, 7}));
}

}  // namespace
}  // namespace ridgeline::attention_test

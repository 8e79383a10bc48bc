// Flash attention on the CPU against fp64, in every instruction set and with both backward
// algorithms.
#include "kernels/cpu/flash.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "kernels/flash_test_support.h"
#include "support/expect.h"

namespace ridgeline::flash_test {
namespace {

using namespace flash_testing;
using flash_testing::Layout;  // not those of graphs
using flash_testing::Tensor;
using Alignment = AttentionMask::Alignment;

Outcome run_flash(const Config& config, const Inputs& in, CpuContext context,
                  BackwardAlgorithm algorithm) {
  const Shape queries = {config.batch, config.heads, config.queries, config.head_dim};
  const Shape keys = {config.batch, config.key_heads, config.keys, config.head_dim};
  const auto tensor = [&](const Shape& shape) {
    return Tensor(config.dtype, shape, config.layout);
  };
  Tensor q = tensor(queries), k = tensor(keys), v = tensor(keys), d_out = tensor(queries);
  q.assign(in.q);
  k.assign(in.k);
  v.assign(in.v);
  d_out.assign(in.d_out);
  Outcome run = {tensor(queries),
                 Tensor(DType::f32, {config.batch, config.heads, config.queries}, config.layout),
                 tensor(queries), tensor(keys), tensor(keys)};
  const auto scale = static_cast<float>(scale_of(config));
  flash_forward({.q = q.view(),
                 .k = k.view(),
                 .v = v.view(),
                 .out = run.out.view(),
                 .log_sum_exp = run.log_sum_exp.view(),
                 .scale = scale,
                 .mask = config.mask},
                context);
  flash_backward({.q = q.view(),
                  .k = k.view(),
                  .v = v.view(),
                  .out = run.out.view(),
                  .log_sum_exp = run.log_sum_exp.view(),
                  .d_out = d_out.view(),
                  .d_q = run.d_q.view(),
                  .d_k = run.d_k.view(),
                  .d_v = run.d_v.view(),
                  .scale = scale,
                  .mask = config.mask,
                  .algorithm = algorithm},
                 context);
  return run;
}

void check_run(const Config& config, const Inputs& in, const Results& exact, const Results& rounded,
               CpuContext context, BackwardAlgorithm algorithm) {
  SCOPED_TRACE(describe(config) + " " + std::string(name(context.isa)) +
               (algorithm == BackwardAlgorithm::two_pass ? " two-pass" : " single-pass"));
  expect_right(config, in, exact, rounded, run_flash(config, in, context, algorithm));
}

void check_everywhere(const Config& config, uint32_t seed = 1) {
  const Inputs in = random_inputs(config, seed);
  const Results exact = oracle(config, in);
  const Results rounded = naive(config, in);
  ThreadPool pool(3);
  for (Isa isa : supported_isas())
    for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass})
      check_run(config, in, exact, rounded, {pool, isa}, algorithm);
}

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16};

TEST(Flash, MatchesTheOracleForEveryHeadDimThatIsAMultipleOfEight) {
  for (int64_t head_dim = 8; head_dim <= 256; head_dim += 8)
    check_everywhere(
        {.queries = 35, .keys = 41, .head_dim = head_dim, .dtype = kDTypes[head_dim / 8 % 3]});
}

// These shapes run in blocks of bf16 where the processor has arithmetic for them.
TEST(Flash, MatchesTheOracleForWideBf16Heads) {
  for (int64_t head_dim : {32, 64, 96, 128, 256})
    for (auto [queries, keys] : {std::pair{64, 64}, {33, 257}, {300, 270}, {1, 40}})
      for (int64_t window : {0, 50})
        check_everywhere({.queries = queries,
                          .keys = keys,
                          .head_dim = head_dim,
                          .mask = {.causal = keys != 257,
                                   .alignment = Alignment::bottom_right,
                                   .window = window},
                          .dtype = DType::bf16,
                          .layout = head_dim == 64 ? Layout::heads_inside : Layout::contiguous});
}

TEST(Flash, MatchesTheOracleForOddHeadDims) {
  for (int64_t head_dim : {1, 2, 3, 7, 13, 50, 100, 255})
    for (DType dtype : kDTypes)
      check_everywhere({.queries = 19, .keys = 23, .head_dim = head_dim, .dtype = dtype});
}

TEST(Flash, MatchesTheOracleForLengthsThatAreNoMultipleOfTheTile) {
  for (int64_t length : {1, 7, 63, 64, 65, 127, 128, 129, 200})
    for (bool causal : {false, true})
      check_everywhere({.batch = 2,
                        .queries = length,
                        .keys = length,
                        .head_dim = 24,
                        .mask = {.causal = causal}});
}

TEST(Flash, MatchesTheOracleOnALongSequence) {
  for (DType dtype : kDTypes)
    check_everywhere(
        {.queries = 1000, .keys = 1000, .head_dim = 16, .mask = {.causal = true}, .dtype = dtype});
}

TEST(Flash, AlignsTheCausalMaskBothWays) {
  for (auto alignment : {Alignment::top_left, Alignment::bottom_right})
    for (auto [queries, keys] : {std::pair{100, 150}, {150, 100}, {1, 130}, {130, 1}, {64, 256}})
      for (DType dtype : kDTypes)
        check_everywhere({.queries = queries,
                          .keys = keys,
                          .mask = {.causal = true, .alignment = alignment},
                          .dtype = dtype});
}

TEST(Flash, KeepsASlidingWindow) {
  for (int64_t window : {1, 5, 64, 100, 1000})
    for (auto alignment : {Alignment::top_left, Alignment::bottom_right})
      check_everywhere({.queries = 170,
                        .keys = 190,
                        .mask = {.causal = window != 5, .alignment = alignment, .window = window}});
}

TEST(Flash, SharesKeyHeadsAmongQueryHeads) {
  for (int64_t key_heads : {1, 2, 6})
    for (DType dtype : kDTypes)
      check_everywhere({.batch = 2,
                        .heads = 6,
                        .key_heads = key_heads,
                        .queries = 70,
                        .keys = 90,
                        .mask = {.causal = true},
                        .dtype = dtype});
}

TEST(Flash, ReadsAndWritesAnyStrides) {
  for (Layout layout : {Layout::heads_inside, Layout::columns_apart})
    for (DType dtype : kDTypes)
      for (int64_t head_dim : {32, 20})
        check_everywhere({.batch = 2,
                          .heads = 2,
                          .key_heads = 2,
                          .queries = 67,
                          .keys = 70,
                          .head_dim = head_dim,
                          .dtype = dtype,
                          .layout = layout});
}

TEST(Flash, SurvivesScoresOfTenThousand) {
  for (DType dtype : kDTypes)
    check_everywhere(
        {.queries = 80, .keys = 140, .head_dim = 64, .dtype = dtype, .magnitude = 60.0});
}

TEST(Flash, GivesZeroToRowsThatSeeNothing) {
  const Config config = {
      .queries = 150, .keys = 70, .mask = {.causal = true, .alignment = Alignment::bottom_right}};
  const Inputs in = random_inputs(config, 1);
  const auto blind = static_cast<size_t>(config.queries - config.keys);
  const auto width = static_cast<size_t>(config.head_dim);
  ThreadPool pool(2);
  for (Isa isa : supported_isas())
    for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass}) {
      const Outcome run = run_flash(config, in, {pool, isa}, algorithm);
      const auto out = run.out.values(), lse = run.log_sum_exp.values(), d_q = run.d_q.values();
      for (size_t i = 0; i < blind; ++i)
        EXPECT_EQ(lse[i], -std::numeric_limits<double>::infinity());
      for (size_t i = 0; i < blind * width; ++i) {
        EXPECT_EQ(out[i], 0.0);
        EXPECT_EQ(d_q[i], 0.0);
      }
      EXPECT_TRUE(std::isfinite(lse[blind]));
    }
}

TEST(Flash, WritesZerosWhenThereAreNoKeysOrNoQueries) {
  ThreadPool alone(1), two(2);
  for (ThreadPool* pool : {&alone, &two})
    for (auto [queries, keys] : {std::pair{5, 0}, {0, 5}}) {
      const Config config = {.queries = queries, .keys = keys};
      const Inputs in = random_inputs(config, 1);
      for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass}) {
        const Outcome run = run_flash(config, in, {*pool, default_isa()}, algorithm);
        for (const Tensor* tensor : {&run.out, &run.d_q, &run.d_k, &run.d_v})
          for (double value : tensor->values()) EXPECT_EQ(value, 0.0);
      }
    }
}

TEST(Flash, IsBitwiseReproducibleForAnyNumberOfThreads) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (bool causal : {false, true})
      for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass}) {
        const Config config = {.batch = 2,
                               .heads = 4,
                               .key_heads = 2,
                               .queries = 300,
                               .keys = 333,
                               .head_dim = causal ? 40 : 32,  // the latter is summed up in place
                               .mask = {.causal = causal},
                               .dtype = dtype};
        const Inputs in = random_inputs(config, 1);
        ThreadPool alone(1);
        const Outcome expected = run_flash(config, in, {alone, default_isa()}, algorithm);
        for (int threads : {1, 2, 3, 5}) {
          ThreadPool pool(threads);
          for (int repeat = 0; repeat < 2; ++repeat) {
            const Outcome run = run_flash(config, in, {pool, default_isa()}, algorithm);
            EXPECT_EQ(run.out.bytes(), expected.out.bytes());
            EXPECT_EQ(run.log_sum_exp.bytes(), expected.log_sum_exp.bytes());
            EXPECT_EQ(run.d_q.bytes(), expected.d_q.bytes()) << threads << " threads";
            EXPECT_EQ(run.d_k.bytes(), expected.d_k.bytes()) << threads << " threads";
            EXPECT_EQ(run.d_v.bytes(), expected.d_v.bytes()) << threads << " threads";
          }
        }
      }
}

// With more threads than tiles of keys, tiles of kernels in blocks become smaller.
TEST(Flash, BitsOfBf16DoNotDependOnTheSizeOfTiles) {
  if (supported_isas().back() < Isa::avx512_bf16)
    GTEST_SKIP() << "this machine has no arithmetic of bf16";
  const Config config = {.queries = 200,
                         .keys = 530,
                         .head_dim = 64,
                         .mask = {.causal = true, .alignment = Alignment::bottom_right},
                         .dtype = DType::bf16};
  const Inputs in = random_inputs(config, 3);
  ThreadPool alone(1), many(9);
  const auto run = [&](ThreadPool& pool) {
    return run_flash(config, in, {pool, default_isa()}, BackwardAlgorithm::single_pass);
  };
  const Outcome expected = run(alone), got = run(many);
  EXPECT_EQ(got.out.bytes(), expected.out.bytes());
  EXPECT_EQ(got.log_sum_exp.bytes(), expected.log_sum_exp.bytes());
  EXPECT_EQ(got.d_q.bytes(), expected.d_q.bytes());
  EXPECT_EQ(got.d_k.bytes(), expected.d_k.bytes());
  EXPECT_EQ(got.d_v.bytes(), expected.d_v.bytes());
}

// Rows 2^30 elements apart in memory that is reserved but mostly never touched.
TEST(Flash, AddressesElementsPastTwoToTheThirtyOne) {
  constexpr int64_t kRowStride = int64_t{1} << 30;
  const Config config = {.queries = 4, .keys = 4, .head_dim = 16, .dtype = DType::bf16};
  const Inputs in = random_inputs(config, 1);
  constexpr size_t kBytes = size_t{4} << 31;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "8 GiB of address space are not available";
  const Shape shape = {1, 1, 4, 16};
  const auto far = [&](int64_t column) {
    return TensorView{.data = static_cast<uint16_t*>(memory) + column,
                      .dtype = DType::bf16,
                      .shape = shape,
                      .strides = {4 * kRowStride, 4 * kRowStride, kRowStride, 1}};
  };
  const auto fill = [&](const TensorView& view, const std::vector<double>& values) {
    for (int64_t i = 0; i < 64; ++i)
      view.as<uint16_t>()[i / 16 * kRowStride + i % 16] =
          float_to_bf16(static_cast<float>(values[static_cast<size_t>(i)]));
  };
  const TensorView q = far(0), k = far(16), v = far(32), out = far(48);
  fill(q, in.q);
  fill(k, in.k);
  fill(v, in.v);
  Tensor log_sum_exp(DType::f32, {1, 1, 4}, Layout::contiguous);
  ThreadPool pool(1);
  flash_forward({.q = q,
                 .k = k,
                 .v = v,
                 .out = out,
                 .log_sum_exp = log_sum_exp.view(),
                 .scale = static_cast<float>(scale_of(config))},
                {pool, default_isa()});
  const Results exact = oracle(config, in);
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_NEAR(bf16_to_float(out.as<uint16_t>()[i / 16 * kRowStride + i % 16]),
                exact.out[static_cast<size_t>(i)], 0.03);
  munmap(memory, kBytes);
}

TEST(Flash, RefusesWhatOnlyOtherKernelsCompute) {
  ThreadPool pool(1);
  Tensor log_sum_exp(DType::f32, {1, 2, 4}, Layout::contiguous);
  const auto forward = [&](int64_t head_dim, DType dtype) {
    Tensor tensor(DType::f32, {1, 2, 4, head_dim}, Layout::contiguous);
    TensorView view = tensor.view();
    view.dtype = dtype;
    flash_forward({.q = view, .k = view, .v = view, .out = view, .log_sum_exp = log_sum_exp.view()},
                  {pool, default_isa()});
  };
  EXPECT_NO_THROW(forward(256, DType::f32));
  EXPECT_ERROR(forward(264, DType::f32), ErrorKind::unsupported, "heads are 264 wide");
  EXPECT_ERROR(forward(8, DType::tf32), ErrorKind::unsupported, "tf32");
}

Config random_config(std::mt19937& random) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Config config;
  config.batch = pick(1, 2);
  config.key_heads = pick(1, 2);
  config.heads = config.key_heads * pick(1, 3);
  config.queries = pick(1, pick(0, 4) == 0 ? 160 : 40);
  config.keys = pick(0, 2) == 0 ? config.queries : pick(1, pick(0, 4) == 0 ? 160 : 40);
  config.head_dim = pick(0, 2) == 0 ? pick(1, 80) : 8 * pick(1, pick(0, 4) == 0 ? 32 : 10);
  config.mask.causal = pick(0, 1) == 1;
  config.mask.alignment = pick(0, 1) == 1 ? Alignment::bottom_right : Alignment::top_left;
  config.mask.window = pick(0, 3) == 0 ? pick(1, 100) : 0;
  config.dtype = kDTypes[pick(0, 2)];
  config.layout = static_cast<Layout>(pick(0, 2));
  config.magnitude = pick(0, 9) == 0 ? 50.0 : 1.0;
  return config;
}

// RIDGELINE_FLASH_CONFIGS raises the number of configurations.
TEST(Flash, MatchesTheOracleOnRandomConfigurations) {
  const char* wanted = std::getenv("RIDGELINE_FLASH_CONFIGS");
  const int count = wanted != nullptr ? std::atoi(wanted) : 200;
  const std::vector<Isa> isas = supported_isas();
  std::mt19937 random(20240607);
  ThreadPool pool(2);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const Config config = random_config(random);
    const Inputs in = random_inputs(config, random());
    const Results exact = oracle(config, in);
    const Results rounded = naive(config, in);
    // The default instruction set runs every configuration, the others take turns.
    for (Isa isa : {isas.back(), isas[static_cast<size_t>(i) % isas.size()]})
      for (auto algorithm : {BackwardAlgorithm::two_pass, BackwardAlgorithm::single_pass})
        check_run(config, in, exact, rounded, {pool, isa}, algorithm);
  }
}

}  // namespace
}  // namespace ridgeline::flash_test

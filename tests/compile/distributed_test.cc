// Training on several ranks against one process that has the whole batch.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <bit>

#include "base/error.h"
#include "compile/training_steps.h"
#include "runtime/cpu_device.h"
#include "support/expect.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline {
namespace {

using testing::MakeStep;
using testing::mixed_transformer_step;
using testing::OneProcess;
using testing::ThreadRanks;
using testing::transformer_step;
using testing::uneven_step;
using testing::vector_step;
using testing::Weights;

constexpr int kSteps = 20;

void expect_equal_to_one_process(const MakeStep& make, Mode mode, int ranks) {
  OneProcess alone(make, mode, ranks);
  std::vector<Weights> expected;
  for (int step = 1; step <= kSteps; ++step) {
    alone.step(step);
    expected.push_back(alone.weights());
  }
  for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
    ThreadRanks all(make, mode,
                    {.strategy = strategy.strategy, .ranks = ranks, .bucket = Bytes{6000}});
    for (int step = 1; step <= kSteps; ++step) {
      all.step(step);
      for (size_t rank = 0; rank < static_cast<size_t>(ranks); ++rank)
        testing::expect_same_bits(
            all.weights(rank), expected[static_cast<size_t>(step - 1)],
            fmt::format("{}, rank {} of {}, step {}", strategy.name, rank, ranks, step));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

class DistributedSteps : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DistributedSteps, ::testing::Values(2, 3, 4, 6));

TEST_P(DistributedSteps, UnevenSizesEqualOneProcess) {
  expect_equal_to_one_process(uneven_step, Mode::vanilla, GetParam());
}

TEST(Distributed, VectorsEqualOneProcess) {
  expect_equal_to_one_process(vector_step, Mode::vanilla, 2);
}

TEST_P(DistributedSteps, ATransformerEqualsOneProcess) {
  expect_equal_to_one_process(transformer_step, Mode::vanilla, GetParam());
}

TEST_P(DistributedSteps, CompiledStepsEqualOneCompiledProcess) {
  expect_equal_to_one_process(transformer_step, Mode::compiled, GetParam());
}

// Products in 16 bits are rounded before ranks add them, whatever kernel writes them there.
TEST(Distributed, EveryStrategyGivesTheSameParametersInMixedPrecision) {
  for (const Mode mode : {Mode::vanilla, Mode::fused, Mode::compiled}) {
    Weights expected;
    for (const ParallelStrategyInfo& strategy : parallel_strategies())
      for (const Bytes bucket : {Bytes{6000}, Bytes{25'000'000}}) {  // several, and one
        ThreadRanks all(mixed_transformer_step, mode,
                        {.strategy = strategy.strategy, .ranks = 2, .bucket = bucket});
        for (int step = 1; step <= 3; ++step) all.step(step);
        const Weights found = all.weights(0);
        if (expected.empty()) expected = found;
        testing::expect_same_bits(
            found, expected,
            fmt::format("{}, {} by {} bytes", info(mode).name, strategy.name, bucket.count));
      }
  }
}

TEST(Distributed, MemoryOfARankIsAsPredicted) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
      ThreadRanks all(transformer_step, mode, {.strategy = strategy.strategy, .ranks = 2});
      all.device(0).ledger().start_over();
      all.step(1);
      const auto measured = static_cast<double>(all.device(0).ledger().peak().count);
      const auto predicted = static_cast<double>(all.executable(0).predicted_peak().count);
      EXPECT_NEAR(measured / predicted, 1, 0.01) << strategy.name << " " << info(mode).name;
    }
}

TEST(Distributed, WhatIsSentIsWhatTheGraphCosts) {
  for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
    ThreadRanks all(transformer_step, Mode::vanilla, {.strategy = strategy.strategy, .ranks = 3});
    all.step(1);
    double predicted = 0;
    for (const Cost& cost : all.executable(1).kernel_costs()) predicted += cost.communicated;
    const CommunicationTotals counted = totals(all.executable(1).collectives());
    EXPECT_DOUBLE_EQ(counted.sent_bytes, predicted) << strategy.name;
    EXPECT_GT(counted.communication_ms, 0) << strategy.name;
  }
}

// Gradient accumulation is the same arithmetic: what n ranks do with their batches, one rank does
// with n micro-batches, and both can be combined.
TEST(Distributed, AccumulatedMicroBatchesEqualRanks) {
  const auto make = [](int64_t batch, int64_t micro_batches) {
    return [=](bool, double loss_weight, const Rewrite& forward) {
      TransformerConfig config = testing::tiny_transformer();
      config.batch_size = batch;
      return training_graph(config, {.optimizer = testing::kOptimizer,
                                     .loss_weight = loss_weight,
                                     .micro_batches = micro_batches,
                                     .forward_pass = forward});
    };
  };
  for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
    ThreadRanks together(make(2, 1), Mode::vanilla, {.strategy = strategy.strategy, .ranks = 2});
    ThreadRanks alone(make(4, 2), Mode::vanilla, {.strategy = strategy.strategy, .ranks = 1});
    for (int step = 1; step <= 3; ++step) {
      together.step(step);
      // The batch of one rank is that of the two, one behind the other.
      testing::fill_batch(alone.executable(0), alone.device(0), 0, step);
      for (const char* name : {"tokens", "targets"}) {
        std::vector<int32_t> both;
        for (size_t rank = 0; rank < 2; ++rank) {
          const TensorView part = together.executable(rank).input(name);
          const auto* ids = part.as<int32_t>();
          both.insert(both.end(), ids, ids + element_count(part.shape));
        }
        alone.device(0).upload(alone.executable(0).input(name), both.data());
      }
      alone.executable(0).run();
      testing::expect_same_bits(together.weights(0), alone.weights(0),
                                fmt::format("{}, step {}", strategy.name, step));
    }
  }
}

// Compiled gradients are written where their bucket has them: no kernel copies them there.
TEST(Distributed, CompiledBucketsAreFilledWithoutACopy) {
  CpuDevice device({.threads = 1});
  for (const ParallelStrategy strategy : {ParallelStrategy::flat, ParallelStrategy::fsdp}) {
    const Trace trace = [](const Rewrite& forward) {
      TransformerConfig config = testing::tiny_transformer();
      config.d_model = 64;  // rows of 256 bytes: regions of a bucket are as aligned as memory
      config.d_ff = 128;
      return training_graph(config, {.loss_weight = 0.5, .forward_pass = forward});
    };
    const Executable step(
        trace, device,
        {.mode = Mode::compiled, .distribution = Distribution{.strategy = strategy, .ranks = 2}});
    int collectives = 0;
    for (const PlannedKernel& kernel : step.plan()->kernels) {
      collectives += kernel.is_collective;
      if (kernel.group.kind == GroupKind::library) {
        EXPECT_NE(step.graph().nodes()[kernel.group.node].op, Op::concat) << info(strategy).name;
      }
    }
    EXPECT_GE(collectives, 1);
  }
}

// At most two units are whole at a time: their gathered parameters, or their gradients.
TEST(Distributed, FsdpKeepsNoMoreThanTwoUnits) {
  CpuDevice device({.threads = 1});
  TransformerConfig config = testing::tiny_transformer();
  config.layers = 6;
  const Trace trace = [&](const Rewrite& forward) {
    return training_graph(config, {.loss_weight = 0.5, .forward_pass = forward});
  };
  const Executable step(
      trace, device,
      {.distribution = Distribution{.strategy = ParallelStrategy::fsdp, .ranks = 2}});
  const Graph& graph = step.graph();
  std::map<int64_t, int> change;  // by step
  int gathers = 0;
  for (const Lifetime& life : step.profile()->lifetimes)
    if (graph.node(life.value).op == Op::all_gather) {
      ++gathers;
      ++change[life.first_step];
      --change[life.last_step + 1];
    }
  int alive = 0, most = 0;
  for (const auto& [step_number, by] : change) most = std::max(most, alive += by);
  EXPECT_EQ(most, 2);
  // The embedding in forward alone, the head once for both, each layer twice.
  EXPECT_EQ(gathers, 1 + 1 + 2 * 6);
}

// Sums of ranks in fp32 against the same in fp64.
TEST(Distributed, StepsAreNearTheOracleOverRanks) {
  for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
    ThreadRanks all(uneven_step, Mode::vanilla, {.strategy = strategy.strategy, .ranks = 3});
    const Graph& graph = all.executable(0).graph();
    std::vector<InterpreterInputs> inputs(3);
    for (int rank = 0; rank < 3; ++rank) {
      Executable& executable = all.executable(static_cast<size_t>(rank));
      testing::fill_batch(executable, all.device(static_cast<size_t>(rank)), rank, 1);
      for (Value value : graph.inputs()) {
        const TensorView view = executable.input(graph.input_info(value).name);
        const float* data = view.as<float>();
        inputs[static_cast<size_t>(rank)][graph.name(value)].assign(
            data, data + element_count(view.shape));
      }
    }
    const auto expected = interpret_ranks(graph, inputs);
    all.step(1);
    for (size_t rank = 0; rank < 3; ++rank)
      for (const Output& output : graph.outputs()) {
        const TensorView view = all.executable(rank).output(output.name);
        const std::vector<double>& values = expected[rank][graph.index(output.value)];
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(view.as<float>()[i], values[i], 2e-5 * (1 + std::abs(values[i])))
              << strategy.name << ", rank " << rank << ", " << output.name << " " << i;
      }
  }
}

TEST(Distributed, GraphsWithoutAnUpdateOrWithOtherRanksAreRefused) {
  CpuDevice device({.threads = 1});
  const Trace gradients = [](const Rewrite& forward) { return uneven_step(true, 1, forward); };
  EXPECT_THROW(Executable(gradients, device, {.distribution = Distribution{}}), Error);
  const Trace whole = [](const Rewrite& forward) { return uneven_step(false, 1, forward); };
  Executable step(whole, device, {.distribution = Distribution{.ranks = 4}});
  EXPECT_THROW(step.prepare(), Error) << "nobody to communicate with";
  ThreadGroup group(2);
  const std::unique_ptr<Communicator> two = group.communicator(0);
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    Executable of_four(
        whole, device,
        {.mode = mode, .distribution = Distribution{.ranks = 4}, .communicator = two.get()});
    EXPECT_ERROR(of_four.prepare(), ErrorKind::usage, "the communicator has 2");
  }
}

TEST(Distributed, ShardsTakeTheMemoryOfTheirRank) {
  const auto predicted = [](ParallelStrategy strategy, int ranks) {
    CpuDevice device({.threads = 1});
    const Trace trace = [&](const Rewrite& forward) {
      return transformer_step(false, 1.0 / ranks, forward);
    };
    const Executable step(trace, device,
                          {.distribution = Distribution{.strategy = strategy, .ranks = ranks}});
    return step.profile()->inputs.count;
  };
  const int64_t whole = predicted(ParallelStrategy::flat, 4);
  const int64_t parameters = parameter_count(testing::tiny_transformer()) * 4;
  const int64_t others = whole - 3 * parameters;
  for (const ParallelStrategy strategy : {ParallelStrategy::sharded, ParallelStrategy::fsdp})
    EXPECT_NEAR(static_cast<double>(predicted(strategy, 4) - others),
                static_cast<double>(3 * parameters) / 4, 64);
}

}  // namespace
}  // namespace ridgeline

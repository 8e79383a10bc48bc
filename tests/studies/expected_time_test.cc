#include "studies/expected_time.h"

#include <gtest/gtest.h>

#include "measure/machine.h"
#include "runtime/cpu_device.h"
#include "studies/attention/row.h"
#include "studies/step_workload.h"

namespace ridgeline {
namespace {

double expected(const AttentionWorkload& workload, CpuDevice& device,
                const ExpectedAttention& how) {
  Record blank;
  blank.machine = collect_machine_facts();
  return expected_attention_s(workload.config,
                              AttentionRunner(device, {}).describe(workload, blank), device, how);
}

AttentionWorkload flash(int64_t seq_len) {
  return {{.batch_size = 8, .seq_len = seq_len, .head_dim = 64}, "flash"};
}

TEST(ExpectedTime, GrowsWithTheWorkAndTheSamples) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{1 << 30}}});
  const ExpectedAttention ten{.protocol = {.warmups = 0, .iterations = 10}, .verify = false};
  ExpectedAttention hundred = ten;
  hundred.protocol.iterations = 100;
  const double once = expected(flash(1024), device, ten);
  EXPECT_GT(once, 0);
  EXPECT_GT(expected(flash(4096), device, ten), 10 * once);
  EXPECT_GT(expected(flash(1024), device, hundred), 7 * once);
  ExpectedAttention verified = ten;
  verified.verify = true;
  EXPECT_GT(expected(flash(1024), device, verified), once);
}

TEST(ExpectedTime, StepsOfAttentionHaveTheFlopsOfItsRecords) {
  for (const bool causal : {false, true}) {
    const AttentionConfig config{
        .batch_size = 2, .heads = 3, .seq_len = 64, .head_dim = 16, .causal = causal};
    const CostFacts cost = attention_cost(config, attention_training_graph(config));
    const auto flops_of = [&](Scenario scenario) {
      return step_flops({.of = config, .scenario = scenario});
    };
    EXPECT_EQ(flops_of(Scenario::forward), static_cast<double>(cost.forward.flops)) << causal;
    EXPECT_EQ(flops_of(Scenario::forward_backward),
              static_cast<double>(cost.forward.flops + cost.backward.flops))
        << causal;
  }
}

TEST(ExpectedTime, OfABudgetIsTheBudgetUnlessOneRowNeedsMore) {
  const Protocol second{.time_budget_s = 1};
  EXPECT_DOUBLE_EQ(expected_samples_s(0.02, second), 1);
  EXPECT_GT(expected_samples_s(2, second), 10) << "the fewest samples, whatever they take";
  EXPECT_LT(expected_samples_s(1e-5, second), 1) << "known to 1 % before the budget is spent";
}

TEST(ExpectedTime, WhatIsNotTriedTakesNone) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{1 << 20}}});
  EXPECT_EQ(expected(flash(4096), device, {}), 0);
}

}  // namespace
}  // namespace ridgeline

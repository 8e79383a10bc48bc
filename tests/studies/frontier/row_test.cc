// The search for the longest sequence that fits, with probes that tell the truth and some that do
// not.
#include "studies/frontier/row.h"

#include <gtest/gtest.h>

#include <set>

#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/frontier/probe.h"

namespace ridgeline::frontier_study_test {
namespace {

constexpr Bytes kBudget{32 << 20};

AttentionWorkload workload(const std::string& implementation) {
  return {{.batch_size = 2, .head_dim = 32}, implementation};
}

CpuOptions one_thread(Bytes budget = kBudget) {
  return {.threads = 1, .ledger = {.budget = budget}};
}

// A machine on which lengths up to `limit` fit.
FrontierOptions up_to(int64_t limit, std::vector<int64_t>& asked) {
  FrontierOptions options{.probe = {}, .step = 32, .max_seq_len = 1 << 20};
  options.probe = [limit, &asked](const AttentionWorkload& at,
                                  ProbeMethod) -> std::optional<ProbeResult> {
    asked.push_back(at.config.seq_len);
    if (at.config.seq_len <= limit)
      return ProbeResult{.outcome = ProbeResult::Outcome::fits, .peak = Bytes{1}};
    return ProbeResult{.outcome = ProbeResult::Outcome::out_of_memory, .detail = "too long"};
  };
  return options;
}

Record found(const AttentionWorkload& row, Device& device, const FrontierOptions& options) {
  return find_frontier(row, device, options, describe_frontier(row, device, options, {})).value();
}

// --resume keeps a row whose key is the same, so whatever decides the row is in its key.
TEST(Frontier, WhatDecidesARowIdentifiesIt) {
  CpuDevice device(one_thread());
  const auto key = [&](const FrontierOptions& options) {
    return workload_key(describe_frontier(workload("flash"), device, options, {}));
  };
  const FrontierOptions base{.probe = {}, .step = 32, .max_seq_len = 64};
  FrontierOptions longer = base, more = base, slower = base;
  longer.max_seq_len = 128;
  more.max_probes += 1;
  slower.run_limit_s *= 2;
  EXPECT_EQ(std::set({key(base), key(longer), key(more), key(slower)}).size(), 4u);
}

TEST(Frontier, ThePredictedLengthIsTheLastThatFitsTheBudget) {
  CpuDevice device(one_thread());
  for (const char* implementation : {"naive", "flash"})
    for (int64_t step : {1, 32, 100}) {
      AttentionWorkload row = workload(implementation);
      const int64_t longest = predicted_frontier(row, device, kBudget, step, 1 << 20);
      ASSERT_GT(longest, 0);
      EXPECT_EQ(longest % step, 0);
      row.config.seq_len = longest;
      EXPECT_LE(predicted_peak(row, device), kBudget) << implementation;
      row.config.seq_len = longest + step;
      EXPECT_GT(predicted_peak(row, device), kBudget) << implementation;
    }
  EXPECT_EQ(predicted_frontier(workload("naive"), device, Bytes{10}, 32, 1 << 20), 0);
  EXPECT_EQ(predicted_frontier(workload("flash"), device, kBudget, 32, 64), 64);
}

TEST(Frontier, AModelThatIsRightNeedsTwoProbes) {
  CpuDevice device(one_thread());
  const AttentionWorkload row = workload("naive");
  const int64_t predicted = predicted_frontier(row, device, kBudget, 32, 1 << 20);
  std::vector<int64_t> asked;
  const Record record = found(row, device, up_to(predicted, asked));
  EXPECT_EQ(asked, (std::vector<int64_t>{predicted, predicted + 32}));
  EXPECT_EQ(record.status, Status::ok);
  EXPECT_EQ((*record.metrics)["seq_len"], predicted);
  EXPECT_EQ((*record.metrics)["first_oom_seq_len"], predicted + 32);
}

// Whatever the truth is: what is reported fitted, what is reported to fail failed, nothing is asked
// twice, and with enough probes the two are neighbours.
TEST(Frontier, AModelThatIsWrongIsCorrectedByTheProbes) {
  CpuDevice device(one_thread());
  const AttentionWorkload row = workload("naive");
  const int64_t predicted = predicted_frontier(row, device, kBudget, 32, 1 << 20);
  for (double factor : {0.1, 0.5, 0.9, 0.97, 1.03, 1.5, 4.0}) {
    const auto truth = static_cast<int64_t>(factor * static_cast<double>(predicted)) / 32 * 32;
    for (int probes : {1, 3, 6, 40}) {
      std::vector<int64_t> asked;
      FrontierOptions options = up_to(truth, asked);
      options.max_probes = probes;
      const Record record = found(row, device, options);
      EXPECT_LE(asked.size(), static_cast<size_t>(probes));
      EXPECT_EQ(std::set(asked.begin(), asked.end()).size(), asked.size()) << factor;
      const Json& metrics = *record.metrics;
      if (record.status == Status::ok) {
        EXPECT_LE(metrics["seq_len"].get<int64_t>(), truth);
      }
      if (metrics.contains("first_oom_seq_len")) {
        EXPECT_GT(metrics["first_oom_seq_len"].get<int64_t>(), truth);
      }
      if (probes == 40) {
        ASSERT_EQ(record.status, Status::ok) << factor;
        EXPECT_EQ(metrics["seq_len"], truth) << factor;
        EXPECT_EQ(metrics["first_oom_seq_len"], truth + 32) << factor;
      }
    }
  }
}

TEST(Frontier, NothingFitsIsAStatusNotALength) {
  CpuDevice device(one_thread(Bytes{100}));
  std::vector<int64_t> asked;
  const Record record = found(workload("naive"), device, up_to(0, asked));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_FALSE(record.metrics->contains("seq_len"));
}

TEST(Frontier, HeadsThatNoKernelServesAreUnsupportedWithoutAProbe) {
  CpuDevice device(one_thread());
  std::vector<int64_t> asked;
  AttentionWorkload row = workload("flash");
  row.config.head_dim = 257;
  const Record record = found(row, device, up_to(1 << 20, asked));
  EXPECT_EQ(record.status, Status::unsupported);
  EXPECT_HAS(record.error, "257");
  EXPECT_TRUE(asked.empty());
  for (const char* implementation : {"naive", "compiled"}) {
    row.implementation = implementation;
    EXPECT_EQ(found(row, device, up_to(1 << 20, asked)).status, Status::ok) << implementation;
  }
}

// A probe that ends for another reason says nothing of memory.
TEST(Frontier, AProbeThatFailedIsNotTakenForTheEndOfMemory) {
  CpuDevice device(one_thread());
  const AttentionWorkload row = workload("naive");
  const int64_t predicted = predicted_frontier(row, device, kBudget, 32, 1 << 20);
  for (const int64_t works : {int64_t{0}, predicted}) {
    FrontierOptions options{.probe = {}, .step = 32, .max_seq_len = 1 << 20};
    options.probe = [works](const AttentionWorkload& at, ProbeMethod) {
      return at.config.seq_len <= works
                 ? ProbeResult{.outcome = ProbeResult::Outcome::fits, .peak = Bytes{1}}
                 : ProbeResult{.detail = "it crashed"};
    };
    const Record record = found(row, device, options);
    EXPECT_EQ(record.status, works > 0 ? Status::ok : Status::invalid);
    EXPECT_FALSE(record.metrics->contains("first_oom_seq_len"));
    const std::string why =
        works > 0 ? (*record.metrics)["limited_by"].get<std::string>() : record.error;
    EXPECT_HAS(why, "it crashed");
  }
}

TEST(Frontier, OnlyAnAnswerThatSaysSoIsOutOfMemory) {
  using Outcome = ProbeResult::Outcome;
  EXPECT_EQ(parse_probe_answer(R"({"peak_bytes": 7})").outcome, Outcome::fits);
  EXPECT_EQ(parse_probe_answer(R"({"peak_bytes": 7})").peak, Bytes{7});
  EXPECT_EQ(parse_probe_answer(R"({"out_of_memory": "no"})").outcome, Outcome::out_of_memory);
  EXPECT_EQ(parse_probe_answer(R"({"out_of_memory": "no"})").detail, "no");
  for (const char* other : {"", "libfoo: warning", "{}", "7", R"({"peak_bytes": "all"})"}) {
    EXPECT_EQ(parse_probe_answer(other).outcome, Outcome::failed) << other;
    EXPECT_HAS(parse_probe_answer(other).detail, other);
  }
}

TEST(Frontier, TheEndOfTheSearchIsNotTakenForTheEndOfMemory) {
  CpuDevice device(one_thread());
  std::vector<int64_t> asked;
  FrontierOptions options = up_to(1 << 20, asked);
  options.max_seq_len = 256;
  const Record record = found(workload("flash"), device, options);
  EXPECT_EQ((*record.metrics)["seq_len"], 256);
  EXPECT_FALSE(record.metrics->contains("first_oom_seq_len"));
  EXPECT_EQ((*record.metrics)["limited_by"], "the longest length looked at");
}

TEST(Frontier, TheLastProbeIsNotTakenForTheLongestLength) {
  CpuDevice device(one_thread());
  std::vector<int64_t> asked;
  FrontierOptions options = up_to(1 << 20, asked);
  options.max_probes = 1;
  const Record record = found(workload("flash"), device, options);
  EXPECT_EQ(record.status, Status::ok);
  EXPECT_LT((*record.metrics)["seq_len"].get<int64_t>(), options.max_seq_len - options.step);
  EXPECT_EQ((*record.metrics)["limited_by"], "--max-probes 1");
}

TEST(Frontier, InterruptedIsNoRecord) {
  CpuDevice device(one_thread());
  FrontierOptions options{.probe = [](const auto&, ProbeMethod) { return std::nullopt; }};
  const AttentionWorkload row = workload("naive");
  EXPECT_FALSE(find_frontier(row, device, options, describe_frontier(row, device, options, {})));
}

// Both ways of probing meet the same budget at the same length, where the model says.
TEST(Frontier, ProbesAgreeWithTheModelAtTheBudget) {
  for (const char* implementation : {"naive", "flash"}) {
    CpuDevice device(one_thread(Bytes{4 << 20}));
    AttentionWorkload row = workload(implementation);
    const int64_t longest = predicted_frontier(row, device, Bytes{4 << 20}, 16, 1 << 20);
    for (ProbeMethod method : {ProbeMethod::run, ProbeMethod::allocate}) {
      row.config.seq_len = longest;
      device.ledger().start_over();
      EXPECT_EQ(probe_length(row, device, method), predicted_peak(row, device))
          << implementation << ' ' << kProbeMethods[method].name;
      row.config.seq_len = longest + 16;
      device.ledger().start_over();
      EXPECT_ERROR(probe_length(row, device, method), ErrorKind::out_of_memory, "budget");
      EXPECT_EQ(device.ledger().live(), Bytes{0});
    }
  }
}

}  // namespace
}  // namespace ridgeline::frontier_study_test

// One row of the study from description to record.
#include "studies/attention/row.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/attention/verify.h"

namespace ridgeline::attention_study_test {
namespace {

AttentionWorkload workload(const std::string& implementation, int64_t seq_len = 48) {
  return {{.batch_size = 2, .heads = 2, .seq_len = seq_len, .head_dim = 8}, implementation};
}

CpuOptions two_threads(Bytes budget = Bytes{64 << 20}) {
  return {.threads = 2, .ledger = {.budget = budget}};
}

const AttentionStudyOptions kQuick{.row = {.protocol = {.warmups = 1, .iterations = 4}}};

std::optional<Record> run_row(const AttentionWorkload& row, CpuDevice& device,
                              const AttentionStudyOptions& options = kQuick) {
  Record blank;
  blank.machine = collect_machine_facts();  // the clock rate bounds what a row can be believed
  AttentionRunner runner(device, options);
  return runner.run(row, runner.describe(row, blank));
}

TEST(AttentionStudy, ARowIsMeasuredVerifiedAndAsLargeAsPredicted) {
  for (const std::string implementation : {"naive", "compiled", "flash"}) {
    CpuDevice device(two_threads());
    const Record record = run_row(workload(implementation), device).value();
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 4u);
    EXPECT_EQ(record.find_series("backward")->samples_ms.size(), 4u);
    EXPECT_EQ(record.verification.tensors.size(), implementation == "flash" ? 5u : 4u);
    EXPECT_EQ(record.memory.peak, record.memory.predicted_peak);
    EXPECT_EQ(record.memory.before_backward, record.memory.predicted_before_backward);
    EXPECT_EQ(device.ledger().live(), Bytes{0});
  }
}

TEST(AttentionStudy, ThePartThatGrowsWithTheSquareDoesNotDependOnTheWidthOfHeads) {
  CpuDevice device(two_threads());
  AttentionRunner runner(device, kQuick);
  for (const bool causal : {false, true})
    for (const std::string implementation : {"naive", "flash"}) {
      AttentionWorkload row = workload(implementation, 32);
      row.config.causal = causal;
      row.config.head_dim = 16;
      const auto narrow = runner.describe(row, {}).memory.predicted_quadratic;
      row.config.head_dim = 32;
      const auto square = runner.describe(row, {}).memory.predicted_quadratic;
      EXPECT_EQ(square, narrow) << implementation << causal;
      EXPECT_EQ(square > Bytes{}, implementation == "naive");
    }
}

// With one key the true d_q and d_k are zero, and a log-sum-exp may be near it.
TEST(AttentionStudy, ARowWhoseTrueResultsVanishIsNotWrong) {
  CpuDevice device(two_threads());
  for (const uint64_t seed : {1, 2, 3, 4, 5, 6})
    for (const int64_t head_dim : {1, 2, 16})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const std::string implementation : {"naive", "compiled", "flash"}) {
          AttentionStudyOptions options = kQuick;
          options.row.seed = seed;
          AttentionWorkload row = workload(implementation, 1);
          row.config.head_dim = head_dim;
          row.config.dtype = dtype;
          const Record record = run_row(row, device, options).value();
          EXPECT_NE(record.status, Status::wrong) << label(row) << seed << ": " << record.error;
        }
}

// Too long for whole tensors: rows are sampled, and the sums of all of them compared.
TEST(AttentionStudy, ALongRowIsNotWrong) {
  CpuDevice device(two_threads());
  AttentionStudyOptions once = kQuick;
  once.row.protocol.iterations = 1;
  once.row.protocol.min_warmup_s = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const bool causal : {false, true})
      for (const int64_t head_dim : {16, 64}) {
        const AttentionWorkload row{{.batch_size = 1,
                                     .heads = 2,
                                     .seq_len = kWholeTensorLimit + 65,
                                     .head_dim = head_dim,
                                     .causal = causal,
                                     .dtype = dtype},
                                    "flash"};
        const Record record = run_row(row, device, once).value();
        EXPECT_NE(record.status, Status::wrong) << label(row) << ": " << record.error;
      }
}

// The wider a head, the more its terms leave when they cancel.
TEST(AttentionStudy, ARowOfFewKeysAndWideHeadsIsNotWrong) {
  CpuDevice device(two_threads());
  for (const int64_t seq_len : {1, 2, 3, 4})
    for (const int64_t head_dim : {128, 256})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const std::string implementation : {"naive", "compiled", "flash"}) {
          if (dtype == DType::bf16 && (seq_len > 1 || implementation == "compiled")) continue;
          const AttentionWorkload row{{.batch_size = 16,
                                       .heads = 16,
                                       .seq_len = seq_len,
                                       .head_dim = head_dim,
                                       .dtype = dtype},
                                      implementation};
          const Record record = run_row(row, device).value();
          EXPECT_NE(record.status, Status::wrong) << label(row) << ": " << record.error;
        }
}

TEST(AttentionStudy, Tf32OnACpuIsUnsupportedNotFp32) {
  for (const std::string implementation : {"naive", "compiled", "flash"}) {
    CpuDevice device(two_threads());
    AttentionWorkload row = workload(implementation);
    row.config.dtype = DType::tf32;
    const Record record = run_row(row, device).value();
    EXPECT_EQ(record.status, Status::unsupported);
    EXPECT_HAS(record.error, "tf32");
    EXPECT_TRUE(record.series.empty());
    EXPECT_EQ(device.ledger().live(), Bytes{0});
  }
}

TEST(AttentionStudy, HeadsThatAreTooWideForFlashAreUnsupportedBeforeARun) {
  CpuDevice device(two_threads());
  for (const std::string implementation : {"naive", "compiled", "flash"}) {
    AttentionWorkload row = workload(implementation);
    row.config.head_dim = 257;
    const Record described = AttentionRunner(device, kQuick).describe(row, {});
    const bool flash = implementation == "flash";
    EXPECT_EQ(described.status, flash ? Status::unsupported : Status::ok);
    EXPECT_EQ(described.memory.predicted_peak.has_value(), !flash);
    EXPECT_TRUE(described.cost);
    const Record record = run_row(row, device).value();
    EXPECT_EQ(record.status, described.status) << record.error;
    EXPECT_EQ(record.error.find("257 wide") != std::string::npos, flash) << record.error;
    row.config.head_dim = 256;
    EXPECT_EQ(run_row(row, device).value().status, Status::ok) << implementation;
  }
}

TEST(AttentionStudy, FlopsFollowTheConvention) {
  CpuDevice device(two_threads());
  AttentionWorkload row = workload("naive");
  const int64_t forward = 4LL * 2 * 2 * 48 * 48 * 8;
  const Record whole = AttentionRunner(device, kQuick).describe(row, {});
  EXPECT_EQ(whole.cost->forward.flops, forward);
  EXPECT_EQ(whole.cost->backward.flops, forward * 5 / 2);
  row.config.causal = true;
  EXPECT_EQ(AttentionRunner(device, kQuick).describe(row, {}).cost->forward.flops, forward / 2);
}

TEST(AttentionStudy, SettingsThatChangeTheRowChangeItsKey) {
  CpuDevice device(two_threads());
  const auto key = [&](const AttentionWorkload& row, uint64_t seed) {
    return workload_key(AttentionRunner(device, {.row = {.seed = seed}}).describe(row, {}));
  };
  AttentionWorkload two_pass = workload("flash");
  two_pass.config.backward = BackwardAlgorithm::two_pass;
  EXPECT_EQ(key(workload("flash"), 42), key(workload("flash"), 42));
  EXPECT_NE(key(workload("flash"), 42), key(workload("flash"), 7));
  EXPECT_NE(key(workload("flash"), 42), key(two_pass, 42));
  EXPECT_NE(key(workload("flash"), 42), key(workload("naive"), 42));
}

TEST(AttentionStudy, AnyBudgetBelowThePredictedPeakIsOutOfMemoryAndFreesEverything) {
  CpuDevice roomy(two_threads());
  const Record described = AttentionRunner(roomy, kQuick).describe(workload("naive"), {});
  const int64_t peak = described.memory.predicted_peak->count;
  for (const int64_t budget : {int64_t{0}, int64_t{1000}, peak / 2, peak - 1}) {
    CpuDevice device(two_threads(Bytes{budget}));
    const Record record = run_row(workload("naive"), device).value();
    EXPECT_EQ(record.status, Status::oom) << budget;
    EXPECT_NE(record.error, "");
    EXPECT_TRUE(record.series.empty());
    EXPECT_EQ(device.ledger().live(), Bytes{0});
  }
  CpuDevice exact(two_threads(Bytes{peak}));
  EXPECT_EQ(run_row(workload("naive"), exact)->status, Status::ok);
}

TEST(AttentionStudy, AnInterruptedRowIsNoRecord) {
  CpuDevice device(two_threads());
  int asked = 0;
  AttentionStudyOptions options = kQuick;
  options.row.interrupted = [&] { return ++asked > 2; };
  EXPECT_FALSE(run_row(workload("naive"), device, options).has_value());
  EXPECT_EQ(device.ledger().live(), Bytes{0});
}

TEST(AttentionStudy, SizesThatCannotBeCountedAreUsageErrors) {
  CpuDevice device(two_threads());
  const auto describe = [&](const AttentionConfig& config) {
    return AttentionRunner(device, kQuick).describe({config, "naive"}, {});
  };
  EXPECT_ERROR(describe({.seq_len = int64_t{1} << 62}), ErrorKind::usage, "4611686018427387904");
  EXPECT_ERROR(describe({.heads = int64_t{1} << 61}), ErrorKind::usage, "2305843009213693952");
  // 2^60 scores in 2^62 bytes: three of them at the peak are more than 2^63.
  EXPECT_ERROR(describe({.batch_size = 16, .seq_len = int64_t{1} << 28, .head_dim = 16}),
               ErrorKind::usage, "268435456");
}

TEST(AttentionStudy, WhateverIsDescribedHasPositiveCounts) {
  CpuDevice device(two_threads());
  for (int bits = 0; bits <= 30; ++bits) {
    const AttentionConfig config{.batch_size = 8, .seq_len = int64_t{1} << bits, .head_dim = 128};
    try {
      const Record record = AttentionRunner(device, kQuick).describe({config, "naive"}, {});
      EXPECT_GT(record.cost->forward.flops, 0) << config.seq_len;
      EXPECT_GT(record.cost->backward.macs, 0) << config.seq_len;
      EXPECT_GT(record.cost->backward.bytes, Bytes{0}) << config.seq_len;
      EXPECT_GT(*record.memory.predicted_peak, *record.memory.predicted_before_backward);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_GE(bits, 24) << "attention of 2^24 is large, but can be counted";
    }
  }
}

}  // namespace
}  // namespace ridgeline::attention_study_test

// Rows that do not fit are results: recorded, named, accounted for, and the sweep goes on.
#include <gtest/gtest.h>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

// One S x S tensor is 1 MiB at 512 and 4 MiB at 1024; flash needs 0.5 MiB at most.
const Arguments kBudgetSweep = tiny_attention({"--impl", "naive,flash", "--seq-len", "1024,512,64",
                                               "--d-model", "16", "--memory-budget", "2MiB"});

TEST(OutOfMemory, TheSweepGoesOnAndEndsWell) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(kBudgetSweep);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  std::map<std::string, std::vector<Status>> by_implementation;
  for (const Record& record : sandbox.results().records)
    by_implementation[record.implementation].push_back(record.status);
  EXPECT_EQ(by_implementation["naive"], (std::vector{Status::oom, Status::oom, Status::ok}));
  EXPECT_EQ(by_implementation["flash"], (std::vector{Status::ok, Status::ok, Status::ok}));
}

TEST(OutOfMemory, RowsOfTheCsvHaveTheStatusAndNoNumbers) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(kBudgetSweep).exit_code, 0);
  int seen = 0;
  for (const auto& row : parse_csv(read_text(sandbox.attention("attention.csv"))).rows) {
    if (row.at("implementation") != "naive" || row.at("seq_len") == "64") continue;
    ++seen;
    EXPECT_EQ(row.at("status"), "OOM");
    EXPECT_TRUE(contains(row.at("error"), "budget of 2.00 MiB")) << row.at("error");
    for (const char* column :
         {"forward_mean_ms", "forward_std_ms", "backward_mean_ms", "backward_std_ms",
          "total_mean_ms", "memory_before_backward_mb", "peak_memory_mb"})
      EXPECT_EQ(row.at(column), "") << column;
  }
  EXPECT_EQ(seen, 2);
}

TEST(OutOfMemory, TheSmallestIsNamedAndAccountedFor) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(kBudgetSweep);
  EXPECT_TRUE(contains(
      run.out, "Smallest out-of-memory configuration: naive at batch 1, d_model 16, seq_len 512."))
      << run.out;
  const std::string account = read_text(sandbox.attention("memory_analysis_d16_s512.txt"));
  EXPECT_TRUE(contains(account, "batch 1, heads 1, sequence 512, width 16, fp32")) << account;
  EXPECT_FALSE(std::filesystem::exists(sandbox.attention("memory_analysis_d16_s1024.txt")));
}

TEST(OutOfMemory, ARecordSaysWhatWasPredictedAndHasNoTimes) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(kBudgetSweep).exit_code, 0);
  const Record record = sandbox.results().records.at(0);
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_TRUE(record.series.empty());
  EXPECT_FALSE(record.verification.checked);
  // Three S x S tensors of 4 MiB and six of S x d with 64 KiB.
  EXPECT_EQ(record.memory.predicted_peak, Bytes{3 * (4 << 20) + 6 * (64 << 10)});
}

TEST(OutOfMemory, WithoutAnyThereIsNoAccount) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention({"--seq-len", "16", "--d-model", "8"}));
  ASSERT_EQ(run.exit_code, 0);
  EXPECT_FALSE(contains(run.out, "out-of-memory"));
  for (const auto& entry : std::filesystem::directory_iterator(sandbox / "results/attention"))
    EXPECT_FALSE(contains(entry.path().filename().string(), "memory_analysis"));
}

// 2^58 scores can be counted; the account's table of growth must not ask for what cannot.
TEST(OutOfMemory, AGiganticRowIsAccountedForLikeAnyOther) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention(
      {"--impl", "naive", "--seq-len", "67108864", "--d-model", "1", "--memory-budget", "1MiB"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "Smallest out-of-memory configuration")) << run.out;
  EXPECT_TRUE(std::filesystem::exists(sandbox.attention("memory_analysis_d1_s67108864.txt")));
}

}  // namespace
}  // namespace ridgeline

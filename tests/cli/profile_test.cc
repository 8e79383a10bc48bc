// ridgeline profile as a user runs it, in small, on the CPU.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "support/stand_in_gpu.h"

namespace ridgeline {
namespace {

Arguments tiny_profile(const Arguments& more) {
  return Arguments{"profile",
                   "--device",
                   "cpu",
                   "--threads",
                   "1",
                   "--layers",
                   "1",
                   "--heads",
                   "1",
                   "--d-model",
                   "8",
                   "--d-ff",
                   "8",
                   "--vocabulary",
                   "10",
                   "--context-length",
                   "4",
                   "--batch-size",
                   "1",
                   "--schedule",
                   "wait=0,warmup=1,active=2"} +
         more;
}

Arguments tiny_attention_profile(const Arguments& more) {
  return Arguments{"profile",      "--attention",
                   "--device",     "cpu",
                   "--threads",    "1",
                   "--seq-len",    "16",
                   "--head-dim",   "8",
                   "--batch-size", "1",
                   "--schedule",   "wait=0,warmup=1,active=2"} +
         more;
}

std::vector<Record> records_of(const Sandbox& sandbox) {
  return read_results(sandbox / "results/profile/profile.jsonl").records;
}

TEST(ProfileCommand, WritesRecordsCsvAndATracePerRow) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_profile({"--impl", "vanilla,compiled"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Record> records = records_of(sandbox);
  ASSERT_EQ(records.size(), 2u);
  for (const Record& record : records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_TRUE(std::filesystem::exists(sandbox / (*record.metrics)["trace"].text()));
    const std::string trace = (*record.metrics)["trace"].text();
    EXPECT_TRUE(trace.starts_with("results/profile/trace_custom_")) << trace;
    EXPECT_TRUE(contains(record.command, "--schedule wait=0,warmup=1,active=2")) << record.command;
  }
  for (const char* part : {"by phase, of one step", "by category", "by kernel", "in forward ",
                           "modes side by side", "tracing costs", "Trace:   results/profile/"})
    EXPECT_TRUE(contains(run.out, part)) << part << run.out;
  const std::string csv = read_text(sandbox / "results/profile/profile.csv");
  for (const char* column :
       {"invocations,total_ms,mean_us,share_pct,flops_per_s,bytes_per_s,roof_pct",
        "predicted_us,prediction_error_pct"})
    EXPECT_TRUE(contains(csv, column)) << csv;

  // A row can be run again by its command, and the file holds it.
  const std::string before = read_text(sandbox / "results/profile/profile.jsonl");
  EXPECT_EQ(sandbox.run(tiny_profile({"--impl", "vanilla,compiled", "--resume"})).exit_code, 0);
  EXPECT_EQ(read_text(sandbox / "results/profile/profile.jsonl"), before);
  Arguments words;
  std::istringstream command(records[1].command);
  for (std::string word; command >> word;) words.push_back(word);
  words.erase(words.begin());
  EXPECT_EQ(sandbox.run(words + Arguments{"--resume"}).exit_code, 0) << records[1].command;
  EXPECT_EQ(read_text(sandbox / "results/profile/profile.jsonl"), before);

  const Finished report = sandbox.run({"report", "results", "-o", "report.md"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_TRUE(contains(read_text(sandbox / "report.md"), "Where the time goes"));
}

TEST(ProfileCommand, WithoutCuptiOneLineSaysSoAndNothingIsSaidOfWaiting) {
  RIDGELINE_NEEDS_NVRTC();
  const testing::StandInGpu gpu;
  const Sandbox sandbox;
  RunOptions options;
  options.environment = {{"RIDGELINE_CUDA_LIBRARIES", gpu.path()}, {"RIDGELINE_CACHE_DIR", "off"}};
  const Finished run = sandbox.run(
      {"profile", "--attention", "--device", "cuda", "--seq-len", "16", "--head-dim", "16",
       "--batch-size", "1", "--impl", "compiled", "--schedule", "wait=0,warmup=1,active=1"},
      options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "times are by events between kernels")) << run.out;
  EXPECT_TRUE(contains(run.out, "no CUPTI was found")) << run.out;
  EXPECT_FALSE(contains(run.out, "launch-bound")) << run.out;
  EXPECT_FALSE(contains(run.out, "host wait")) << run.out;
}

TEST(ProfileCommand, ByPrintsOneTable) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_attention_profile(
      {"--impl", "vanilla", "--by", "scope", "--top", "2", "--trace", "t.json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "by scope, of one step; 2 of ")) << run.out;
  EXPECT_FALSE(contains(run.out, "by phase")) << run.out;
  EXPECT_TRUE(contains(run.out, "inside of attention, softmax takes")) << run.out;
  EXPECT_TRUE(contains(read_text(sandbox / "t.json"), "traceEvents"));
}

TEST(ProfileCommand, DryRunAndListTouchNothing) {
  const Sandbox sandbox;
  const Finished dry = sandbox.run(tiny_profile({"--dry-run"}));
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_TRUE(contains(dry.out, "2 rows would run")) << dry.out;
  EXPECT_TRUE(contains(sandbox.run({"profile", "--list"}).out, "full-step"));
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(ProfileCommand, BadInputIsRefusedBeforeTheWork) {
  const Sandbox sandbox;
  struct Bad {
    Arguments arguments;
    std::string part;
  };
  for (const Bad& bad : {
           Bad{tiny_profile({"--impl", "fast"}), "fast"},
           Bad{{"profile", "--device", "cpu", "--schedule", "wait=1,active=0"}, "of active"},
           Bad{tiny_profile({"--by", "colour"}), "colour"},
           Bad{tiny_profile({"--top", "0"}), "--top"},
           Bad{tiny_profile({"--trace", "t.json.gz"}), "2 rows would write their trace"},
           Bad{tiny_profile({"--impl", "vanilla", "--trace", "no/such/t.json"}), "no/such"},
           Bad{tiny_profile({"--impl", "vanilla", "--trace", "x.csv", "-o", "x.csv"}), "--trace"},
           Bad{tiny_profile({"--impl", "vanilla", "--trace", "results/profile/profile.jsonl"}),
               "profile.jsonl"},
           Bad{tiny_profile({"--seq-len", "16"}), "--attention"},
           Bad{tiny_attention_profile({"--scenario", "full-step"}), "no full-step"},
           Bad{tiny_attention_profile({"--precision", "mixed"}), "--attention"},
       }) {
    const Finished run = sandbox.run(bad.arguments);
    EXPECT_EQ(run.exit_code, 2) << bad.part << run.err;
    EXPECT_TRUE(contains(run.err, bad.part)) << bad.part << ": " << run.err;
    EXPECT_TRUE(sandbox.is_empty()) << bad.part;
  }
}

}  // namespace
}  // namespace ridgeline

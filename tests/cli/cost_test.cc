// ridgeline cost, and roofline --gpu, as a user runs them: no GPU, nothing measured.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

TEST(Cost, CountsEverythingForMachinesThatAreNotHere) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"cost", "--dtype", "bf16", "--gpu", "A100,H100", "--context-length", "128", "-o",
                   "more.md", "--json", "all.json"},
                  without_cuda());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "nothing ran")) << run.out;
  EXPECT_TRUE(contains(run.out, "data sheets, not measured")) << run.out;
  const ReadResult found = read_results(sandbox / "results/cost/cost.jsonl");
  ASSERT_TRUE(found.problems.empty());
  ASSERT_EQ(found.records.size(), 2u * (3 + 3 + 4 + 4 + 2 + 4 + 4));
  for (const Record& record : found.records) EXPECT_EQ(record.status, Status::ok) << record.error;
  EXPECT_TRUE(contains(read_text(sandbox / "results/cost/cost.csv"),
                       "macs,flops,bytes,intensity,device,ceilings_from"));
  EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "| A100 SXM 80 GB |"));
  EXPECT_TRUE(contains(read_text(sandbox / "all.json"), "least_ms"));
}

// What stands behind a row gives that row again, and no other.
TEST(Cost, TheCommandOfARowGivesTheRow) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox
                .run({"cost", "layer", "gemv", "--phase", "decode", "--impl", "flash", "--heads",
                      "4", "--head-dim", "32", "--seq-len", "64", "--size", "48", "--gpu", "4090"},
                     without_cuda())
                .exit_code,
            0);
  const std::vector<Record> records = read_results(sandbox / "results/cost/cost.jsonl").records;
  ASSERT_EQ(records.size(), 2u);
  for (const Record& record : records) {
    std::istringstream words(record.command);
    Arguments arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    arguments.erase(arguments.begin());
    const Sandbox again;
    ASSERT_EQ(again.run(arguments, without_cuda()).exit_code, 0) << record.command;
    const std::vector<Record> same = read_results(again / "results/cost/cost.jsonl").records;
    ASSERT_EQ(same.size(), 1u) << record.command;
    EXPECT_EQ(same[0].cost, record.cost) << record.command;
    EXPECT_EQ(same[0].metrics, record.metrics) << record.command;
  }
}

TEST(Cost, RefusesWhatItCannotCountAndListsWhatItCan) {
  const Sandbox sandbox;
  for (const Arguments& bad :
       {Arguments{"conv"}, Arguments{"gemm", "--gpu", "A1000"},
        Arguments{"mlp", "--phase", "full-step"}, Arguments{"gemm", "--gpu", "A100,A100-SXM"},
        Arguments{"gemm", "--shape", "8,1,8"},
        Arguments{"gemm", "--size", "4611686018427387904"}}) {
    const Finished run = sandbox.run(Arguments{"cost"} + bad, without_cuda());
    EXPECT_EQ(run.exit_code, 2) << bad.back() << run.err;
    EXPECT_FALSE(run.err.empty());
  }
  const Finished list = sandbox.run({"cost", "--list"}, without_cuda());
  for (const char* name : {"self-attention", "full-step", "flash", "H100-PCIe", "T4"})
    EXPECT_TRUE(contains(list.out, name)) << list.out;
}

TEST(Roofline, OfDataSheetsMeasuresNothingAndKeepsMeasuredCeilings) {
  const Sandbox sandbox;
  ASSERT_EQ(
      sandbox
          .run({"roofline", "--device", "cpu", "--threads", "1", "--memory-budget", "64MiB",
                "--settle-time", "1ms", "--time-budget", "10ms", "--size", "64", "--dtype", "fp32"},
               without_cuda())
          .exit_code,
      0);
  const std::string measured = read_text(sandbox / "results/roofline/roofline.jsonl");
  const Finished run =
      sandbox.run({"roofline", "--gpu", "T4,B200", "--dtype", "bf16"}, without_cuda());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "nothing was measured")) << run.out;
  EXPECT_TRUE(contains(run.out, "layer decode, small")) << run.out;
  EXPECT_TRUE(contains(run.out, "the data sheet of T4 has no bf16 peak")) << run.out;
  EXPECT_EQ(read_text(sandbox / "results/roofline/roofline.jsonl"), measured);
  ASSERT_EQ(sandbox.run({"report", "results", "-o", "report.md"}, without_cuda()).exit_code, 0);
  EXPECT_TRUE(contains(read_text(sandbox / "report.md"), "Roofs: bf16 (data sheets"));

  const Finished beside = sandbox.run(
      {"cost", "gemm", "--gpu", "A100", "--device", "cpu", "--threads", "1", "--size", "64"},
      without_cuda());
  EXPECT_TRUE(contains(beside.out, ", measured")) << "the machine's own ceilings\n" << beside.out;
}

}  // namespace
}  // namespace ridgeline

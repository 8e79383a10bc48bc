// ridgeline ddp --predict as a user runs it: the assignment's example, a transformer, and bad
// input.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

TEST(DdpPredict, GivesTheFiguresOfTheAssignment) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"ddp",
                                    "--predict",
                                    "--model-size",
                                    "xxl",
                                    "--ranks",
                                    "64",
                                    "--peak-tflops",
                                    "460",
                                    "--device-memory",
                                    "95GB",
                                    "--utilisation",
                                    "1",
                                    "--bandwidth",
                                    "180GB/s",
                                    "--mesh",
                                    "16,4",
                                    "--mesh-links",
                                    "2,1",
                                    "--batch-size",
                                    "1",
                                    "--context-length",
                                    "2048",
                                    "-o",
                                    "steps.csv"},
                                   without_cuda());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* figure :
       {"219.8 G parameters", "1758789107712", "3.52 TB in all: the memory of 38 devices",
        "17.5 MB per token in bf16", "below 95.0 GB from 46 ranks on",
        "from 320 tokens per rank on, a batch of 20445 tokens", "20.8 tensor-parallel ranks"})
    EXPECT_TRUE(contains(run.out, figure)) << figure << "\n" << run.out;
  // Six strategies, three algorithms, 2 ... 4096 ranks, and the names of columns.
  const std::string steps = read_text(sandbox / "steps.csv");
  EXPECT_EQ(std::count(steps.begin(), steps.end(), '\n'), 6 * 3 * 12 + 1);
}

TEST(DdpPredict, TellsOfAModelWhatFitsAndWhatHides) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"ddp", "--predict", "--model-size", "10B", "--ranks", "8",
                                    "--bandwidth", "450GB/s", "--strategy", "flat,bucketed,fsdp"},
                                   without_cuda());
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "12.83 G parameters in 50 blocks")) << run.out;
  EXPECT_TRUE(contains(run.out, "bucketed: with 4096 ranks")) << run.out;
  EXPECT_FALSE(contains(run.out, "naive")) << "was not asked for";
  EXPECT_TRUE(contains(run.out, "Nothing was run")) << run.out;
}

TEST(DdpPredict, RefusesWhatItCannotCount) {
  const Sandbox sandbox;
  for (const Arguments& bad :
       {Arguments{"--bandwidth", "fast"}, Arguments{"--bandwidth", "0GB/s"},
        Arguments{"--latency", "soon"}, Arguments{"--model-size", "11B"},
        Arguments{"--model-size", "small,medium"}, Arguments{"--strategy", "pipeline"},
        Arguments{"--utilisation", "2"}, Arguments{"--gpu", "Z80"}, Arguments{"--mesh", "16"},
        Arguments{"--gpu", "T4", "--dtype", "bf16"}, Arguments{"--accumulate", "3"},
        Arguments{"--output", "steps.jsonl"}, Arguments{"--ranks-per-node", "0"}}) {
    const Finished run = sandbox.run(Arguments{"ddp", "--predict"} + bad, without_cuda());
    EXPECT_EQ(run.exit_code, 2) << bad.back() << run.err;
    EXPECT_FALSE(run.err.empty());
  }
  EXPECT_EQ(sandbox.run({"ddp", "--bandwidth", "1GB/s"}, without_cuda()).exit_code, 2)
      << "is about --predict";
}

}  // namespace
}  // namespace ridgeline

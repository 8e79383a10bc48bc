// ridgeline kernel --source: every verdict, on a GPU that stands in for one
// (tests/jit/fake_gpu.cc). NVRTC is real: without it these tests are skipped.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "support/stand_in_gpu.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

RunOptions options_of(const testing::StandInGpu& gpu) {
  RunOptions run;
  run.environment = {{"RIDGELINE_CUDA_LIBRARIES", gpu.path()}, {"RIDGELINE_CACHE_DIR", "off"}};
  return run;
}

std::string source_of(const std::string& entry) {
  return "// ridgeline: grid = (seq_len + 63) / 64, heads, batch\n"
         "// ridgeline: block = 64\n"
         "#include \"own_attention.cuh\"\n"
         "extern \"C\" __global__ void " +
         entry +
         "(const Element* q, const Element* k, const Element* v, Element* output, int batch,\n"
         "    int heads, int seq_len, int head_dim, float scale, int causal) {\n"
         "  output[threadIdx.x] = q[threadIdx.x];\n"
         "}\n";
}

struct OwnRun {
  Finished finished;
  std::vector<Record> records;  // of the own kernel
};

OwnRun run_own(const std::string& source, const std::string& entry, const Arguments& more = {}) {
  const testing::StandInGpu gpu;
  const Sandbox sandbox;
  write_text(sandbox / "mine.cu", source);
  OwnRun run;
  run.finished = sandbox.run(
      Arguments{"kernel", "--device", "cuda", "--source", "mine.cu", "--entry", entry, "--shape",
                "1,2,17,8", "--dtype", "fp32", "--num-warmup", "1", "--num-iterations", "4"} +
          (more.empty() ? Arguments{"--mode", "hot"} : more),
      options_of(gpu));
  const fs::path results = sandbox / "results/kernel/kernel.jsonl";
  if (!fs::exists(results)) return run;
  for (const Record& record : read_results(results).records)
    if (record.implementation == entry) run.records.push_back(record);
  return run;
}

TEST(OwnKernel, ARightOneIsVerifiedAndTimedInEveryMode) {
  RIDGELINE_NEEDS_NVRTC();
  const OwnRun run = run_own(source_of("right"), "right",
                             {"--mode", "hot,cold,cold-rotate", "--causal", "--backward"});
  ASSERT_EQ(run.records.size(), 3u) << run.finished.err;
  for (const Record& record : run.records) {
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 4u);
    EXPECT_EQ(record.find_series("backward"), nullptr) << "it has a forward only";
    ASSERT_EQ(record.verification.tensors.size(), 1u);
    EXPECT_EQ(record.verification.tensors[0].name, "output");
    EXPECT_GT((*record.metrics)["own"]["registers"].get<int>(), 0);
    EXPECT_TRUE(contains(record.command, "--source mine.cu --entry right")) << record.command;
  }
  EXPECT_GT(run.records[2].settings["copies"].get<int>(), 1);
}

struct Case {
  const char* entry;
  Status status;
  const char* reason;
};

TEST(OwnKernel, WhatGoesWrongIsAVerdictAndHarmsNothingElse) {
  RIDGELINE_NEEDS_NVRTC();
  const Case cases[] = {
      {"wrong", Status::wrong, "output is off by 1, allowed are"},
      {"unwritten", Status::wrong, "output is not finite"},
      {"overruns", Status::wrong, "4 bytes after its output were changed"},
      {"underruns", Status::wrong, "4 bytes before its output were changed"},
      {"scribbles", Status::wrong, "it changes its input k"},
      {"faults", Status::invalid, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {"crashes", Status::invalid, "signal 11"},
  };
  for (const Case& expected : cases) {
    const OwnRun run = run_own(source_of(expected.entry), expected.entry);
    ASSERT_EQ(run.records.size(), 1u) << expected.entry << run.finished.err;
    const Record& record = run.records[0];
    EXPECT_EQ(record.status, expected.status) << expected.entry << ": " << record.error;
    EXPECT_TRUE(contains(record.error, expected.reason)) << record.error;
    EXPECT_EQ(run.finished.exit_code, 3) << expected.entry;
    EXPECT_TRUE(contains(run.finished.out, "flash")) << "the other rows ran";
  }
}

TEST(OwnKernel, AHangIsEndedAndNotWaitedForAgain) {
  RIDGELINE_NEEDS_NVRTC();
  const auto begin = Clock::now();
  const OwnRun run = run_own(source_of("hangs"), "hangs",
                             {"--mode", "hot,cold,cold-rotate", "--time-limit", "2s"});
  ASSERT_EQ(run.records.size(), 3u) << run.finished.err;
  for (const Record& record : run.records) {
    EXPECT_EQ(record.status, Status::invalid);
    EXPECT_TRUE(contains(record.error, "hangs: no answer within 2 s")) << record.error;
  }
  EXPECT_GE(Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(run.finished.exit_code, 3);
}

TEST(OwnKernel, WhatDoesNotCompileShowsTheLogWithTheUsersLines) {
  RIDGELINE_NEEDS_NVRTC();
  std::string source = source_of("right");
  source.insert(source.rfind("  output["), "  no_such_name;\n");
  const OwnRun run = run_own(source, "right", {"--mode", "hot,cold"});
  ASSERT_EQ(run.records.size(), 2u) << run.finished.err;
  for (const Record& record : run.records) {
    EXPECT_EQ(record.status, Status::invalid);
    EXPECT_TRUE(contains(record.error, "mine.cu(6): error")) << record.error;
    EXPECT_TRUE(contains(record.error, "no_such_name")) << record.error;
  }
  EXPECT_TRUE(contains(run.finished.err, "mine.cu(6): error")) << run.finished.err;
}

TEST(OwnKernel, ALaunchThatIsNotSaidIsAskedFor) {
  RIDGELINE_NEEDS_NVRTC();
  std::string source = source_of("right");
  source.erase(0, source.find('\n') + 1);
  const OwnRun run = run_own(source, "right");
  ASSERT_EQ(run.records.size(), 1u) << run.finished.err;
  EXPECT_TRUE(contains(run.records[0].error, "does not say its grid")) << run.records[0].error;
  EXPECT_TRUE(contains(run.records[0].error, "// ridgeline: grid = ")) << run.records[0].error;
}

TEST(OwnKernel, WithoutAGpuEndsBeforeAnythingRuns) {
  const Sandbox sandbox;
  write_text(sandbox / "mine.cu", source_of("right"));
  const Finished run =
      sandbox.run({"kernel", "--source", "mine.cu", "--entry", "right"}, without_cuda());
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.err, "needs a GPU")) << run.err;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results")) << "nothing is measured before";
}

TEST(OwnKernel, BadUsageEndsBeforeAnythingRuns) {
  const Sandbox sandbox;
  const Finished missing = sandbox.run(
      {"kernel", "--device", "cpu", "--source", "no.cu", "--entry", "x"}, without_cuda());
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(contains(missing.err, "no.cu")) << missing.err;
  EXPECT_EQ(sandbox.run({"kernel", "--source", "no.cu"}, without_cuda()).exit_code, 2)
      << "--source needs --entry";
  EXPECT_TRUE(sandbox.is_empty());
}

}  // namespace
}  // namespace ridgeline

// memory, doctor and study, as far as they are not the attention study.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

TEST(MemoryCommand, WritesTheAccountAndShowsIt) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"memory", "--batch-size", "2", "--seq-len", "64", "--d-model", "8"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const std::string account = read_text(sandbox.attention("memory_analysis_d8_s64.txt"));
  ASSERT_NE(account, "");
  EXPECT_TRUE(contains(run.out, account));
  for (const char* part : {"inputs", "scores", "weights", "output", "Saved for backward",
                           "gradient", "Fitted", "flash attention", "recomputed"})
    EXPECT_TRUE(contains(account, part)) << part;
  EXPECT_TRUE(contains(account, "(+0.00 %)")) << account;  // measured beside predicted
}

TEST(MemoryCommand, BeyondTheBudgetPredictsOnlyAndSaysSo) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"memory", "--memory-budget", "1MiB"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "above the budget of 1.00 MiB: predicted only")) << run.out;
  const std::string account = read_text(sandbox.attention("memory_analysis_d16_s8192.txt"));
  EXPECT_FALSE(contains(account, "measured by the ledger"));
  EXPECT_TRUE(contains(account, "2147483648")) << "bytes of one tensor of 8 x 8192 x 8192";
}

TEST(MemoryCommand, AFullDiskIsExit4) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"memory", "--seq-len", "64", "--d-model", "8"},
                                   {.limits = {{RLIMIT_FSIZE, 1000}}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "memory_analysis_d8_s64.txt")) << run.err;
  EXPECT_TRUE(std::filesystem::is_empty(sandbox / "results/attention")) << "half a file";
}

TEST(DoctorCommand, SaysWhatWasFoundAndWritesNothing) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"doctor", "--memory-budget", "3GiB", "--threads", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"processor", "memory budget", "3.00 GiB", "1 thread", "CUDA"})
    EXPECT_TRUE(contains(run.out, part)) << part << '\n' << run.out;
  EXPECT_TRUE(sandbox.is_empty());
}

std::string cuda_part(const std::string& out) {
  const size_t at = out.find("CUDA device");
  return at == std::string::npos ? "" : out.substr(at);
}

TEST(DoctorCommand, WithoutCudaSaysWhatIsMissingAndHowToGetIt) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CUDA_LIBRARIES", "none"}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"NVIDIA driver         not found", "libnvrtc              not found",
                           "libcublasLt           not found", "libnvidia-ml          not found",
                           "pip install nvidia-cuda-nvrtc", "pip install nvidia-cublas",
                           "--device cuda cannot run here: no NVIDIA driver"})
    EXPECT_TRUE(contains(cuda_part(run.out), part)) << part << '\n' << run.out;
}

TEST(DoctorCommand, ADriverThatFindsNoGpuIsNamedWithItsError) {
  const Sandbox sandbox;
  const TempDir libraries;
  std::filesystem::copy_file(FAKE_DRIVER, libraries / "libcuda.so.1");
  const Finished run =
      sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CUDA_LIBRARIES", libraries.path()}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"CUDA 12.8", "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES",
                           "--device cuda cannot run here: no GPU answers"})
    EXPECT_TRUE(contains(cuda_part(run.out), part)) << part << '\n' << run.out;
}

TEST(DoctorCommand, NamesTheKernelCacheAndLeavesItAlone) {
  const Sandbox sandbox;
  const std::string cache = sandbox / "cache";
  const auto doctor = [&] {
    return sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CACHE_DIR", cache}}}).out;
  };
  EXPECT_TRUE(contains(doctor(), cache + ", 0 B used")) << doctor();
  EXPECT_TRUE(sandbox.is_empty());
  write_text(sandbox / "cache/one.kernel", std::string(2048, 'x'));
  EXPECT_TRUE(contains(doctor(), cache + ", 2.00 KiB used")) << doctor();
}

// So little memory and time that nothing but the smallest flash row runs.
TEST(StudyCommand, RunsTheWholeStudyIntoAFolderOfItsOwn) {
  const Sandbox sandbox;
  const Arguments study = {"study", "--threads",     "1",  "--memory-budget",
                           "2MiB",  "--time-budget", "1ms"};
  const Finished run = sandbox.run(study);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto path = sandbox / "results/study/attention.jsonl";
  const ReadResult results = read_results(path);
  EXPECT_TRUE(results.problems.empty());
  expect_each_once(results.records, 14);
  EXPECT_TRUE(contains(run.out, "Smallest out-of-memory configuration")) << run.out;
  EXPECT_TRUE(contains(run.out, "What this shows:")) << run.out;

  const std::string before = read_text(path);
  EXPECT_EQ(sandbox.run(study + Arguments{"--resume"}).exit_code, 0);
  EXPECT_EQ(read_text(path), before);
}

// The command of a row must meet the same budget, or an out-of-memory row is not reproduced.
TEST(StudyCommand, ItsRecordsCarryTheMemoryBudgetInTheirCommand) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run({"study", "--memory-budget", "1MiB", "--time-budget", "1ms"}).exit_code, 0);
  for (const Record& record : read_results(sandbox / "results/study/attention.jsonl").records)
    ASSERT_TRUE(contains(record.command, "--memory-budget 1048576")) << record.command;
}

}  // namespace
}  // namespace ridgeline

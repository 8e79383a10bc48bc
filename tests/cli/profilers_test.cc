// What keeps a profile from its sources: permissions, another subscriber, a full disk. Each is one
// line, and the rest goes on.
#include <gtest/gtest.h>

#include "cli/run_ridgeline.h"
#include "support/stand_in_gpu.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

// A GPU whose CUPTI and NVML are ours, too.
struct StandInProfilers : testing::StandInGpu {
  StandInProfilers() {
    fs::create_symlink(FAKE_CUPTI_LIBRARY, fs::path(path()) / "libcupti.so.13");
    fs::create_symlink(FAKE_NVML_LIBRARY, fs::path(path()) / "libnvidia-ml.so.1");
  }
  RunOptions options(const std::string& cupti) const {
    RunOptions options;
    options.environment = {{"RIDGELINE_CUDA_LIBRARIES", path()},
                           {"RIDGELINE_CACHE_DIR", "off"},
                           {"FAKE_CUPTI", cupti}};
    return options;
  }
};

Arguments tiny_profile(const std::string& device) {
  return {"profile",      "--attention",
          "--device",     device,
          "--seq-len",    "16",
          "--head-dim",   "16",
          "--batch-size", "1",
          "--impl",       "compiled",
          "--schedule",   "wait=0,warmup=1,active=1",
          "--trace",      "trace.json"};
}

TEST(Profilers, WithoutPermissionForCountersTheNextSourceServesAndALineSaysSo) {
  RIDGELINE_NEEDS_NVRTC();
  const StandInProfilers gpu;
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_profile("cuda"), gpu.options("forbidden no_counters"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* part :
       {"are measured by NVML GPM", "is not read by CUPTI PM sampling: tracing by CUPTI gave",
        "the driver allows it to administrators only", "times are by events between kernels",
        "multiprocessors had a warp in 80.0 % of cycles and tensor pipes worked in 25.0 %"})
    EXPECT_TRUE(contains(run.out, part)) << part << '\n' << run.out;
  const std::vector<Record> records =
      read_results(sandbox / "results/profile/profile.jsonl").records;
  ASSERT_EQ(records.size(), 1u);
  const Json& use = records[0].metrics->at("utilization");
  EXPECT_EQ(use.at("source").text(), "NVML GPM");
  EXPECT_EQ(use.at("sm_active").get<double>(), 0.8);
  EXPECT_TRUE(contains(read_text(sandbox / "trace.json"), "GPU 0 Counters"));
  EXPECT_TRUE(
      contains(read_text(sandbox / "results/profile/profile.csv"), "80,25,5.12e+11,NVML GPM"));
}

TEST(Profilers, AnotherSubscriberOfCuptiIsALine) {
  RIDGELINE_NEEDS_NVRTC();
  if (kSanitized) GTEST_SKIP() << "sanitizers allow no LD_PRELOAD";
  const StandInProfilers gpu;
  const Sandbox sandbox;
  RunOptions options = gpu.options("");
  options.environment["LD_PRELOAD"] = FIRST_SUBSCRIBER;
  options.environment["FIRST_SUBSCRIBER_CUPTI"] = gpu.path() + "/libcupti.so.13";
  const Finished run = sandbox.run(tiny_profile("cuda"), options);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(contains(run.err, "could not subscribe")) << run.err;
  EXPECT_TRUE(contains(run.out, "another profiler is attached to this process")) << run.out;
  EXPECT_TRUE(contains(run.out, "times are by events between kernels")) << run.out;
}

TEST(Profilers, KernelAndGemmShowWhatWasMeasuredBesideTheShareOfThePeak) {
  RIDGELINE_NEEDS_NVRTC();
  const StandInProfilers gpu;
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      {"kernel", "--device", "cuda", "--impl", "flash", "--shape", "1,1,32,64", "--dtype", "bf16",
       "--mode", "hot", "--no-verify", "--num-warmup", "1", "--num-iterations", "3"},
      gpu.options("no_counters"));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string csv = read_text(sandbox / "results/kernel/kernel.csv");
  EXPECT_TRUE(contains(csv, "sm_active_pct,tensor_active_pct,dram_bytes_per_s,utilization_source"));
  EXPECT_TRUE(contains(csv, "80,25,5.12e+11,NVML GPM")) << csv;
  EXPECT_TRUE(contains(run.out, "is not read by CUPTI PM sampling")) << run.out;
}

TEST(Profilers, ADiskThatFillsUpInTheMiddleOfATraceIsALine) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      Arguments{"profile", "--attention", "--device", "cpu", "--threads", "1", "--seq-len", "16",
                "--head-dim", "16", "--batch-size", "1", "--impl", "vanilla", "--schedule",
                "wait=0,warmup=0,active=200", "--trace", "trace.json"},
      {.limits = {{RLIMIT_FSIZE, 300'000}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "its trace was not written")) << run.out;
  EXPECT_FALSE(fs::exists(sandbox / "trace.json"));
  EXPECT_EQ(read_results(sandbox / "results/profile/profile.jsonl").records.size(), 1u);
}

}  // namespace
}  // namespace ridgeline

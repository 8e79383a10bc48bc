// Ranges for outside profilers, as a library that one injects sees them.
#include <gtest/gtest.h>

#include "base/environment.h"
#include "cli/run_ridgeline.h"
#include "jit/cuda_libraries.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

bool has_nvtx() {
  return static_cast<bool>(find_cuda_library("nvtx3interop", {.variable = environment})) ||
         static_cast<bool>(find_cuda_library("nvToolsExt", {.variable = environment}));
}

Arguments tiny_model(const std::string& mode) {
  return {"model", "--device",         "cpu", "--threads",        "1",         "--layers",
          "1",     "--d-model",        "32",  "--d-ff",           "64",        "--heads",
          "2",     "--vocabulary",     "64",  "--context-length", "16",        "--batch-size",
          "1",     "--impl",           mode,  "--scenario",       "full-step", "--num-warmup",
          "0",     "--num-iterations", "2",   "--no-verify"};
}

TEST(Nvtx, AProfilerThatIsAttachedSeesPhasesAndScopes) {
  if (!has_nvtx()) GTEST_SKIP() << "no NVTX";
  for (const char* mode : {"vanilla", "compiled"}) {
    const Sandbox sandbox;
    RunOptions options;
    options.environment = {{"NVTX_INJECTION64_PATH", NVTX_INJECTION},
                           {"NVTX_RANGES", (sandbox / "ranges").string()}};
    const Finished run = sandbox.run(tiny_model(mode), options);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string ranges = "\n" + read_text(sandbox / "ranges");
    for (const char* part :
         {"\nforward\n  ", "\nbackward\n  ", "\noptimizer\n", "\n  layers\n    0\n"})
      EXPECT_TRUE(contains(ranges, part)) << mode << part << ranges.substr(0, 2000);
  }
}

TEST(Nvtx, WithoutAProfilerThereAreNoRanges) {
  const Sandbox sandbox;
  RunOptions options;
  options.environment = {{"NVTX_RANGES", (sandbox / "ranges").string()}};
  ASSERT_EQ(sandbox.run(tiny_model("vanilla"), options).exit_code, 0);
  EXPECT_FALSE(fs::exists(sandbox / "ranges"));
}

TEST(Nvtx, AProfilerThatCannotBeServedIsALine) {
  const Sandbox sandbox;
  RunOptions options;
  options.environment = {{"NVTX_INJECTION64_PATH", NVTX_INJECTION},
                         {"RIDGELINE_CUDA_LIBRARIES", "none"}};
  const Finished run = sandbox.run(tiny_model("vanilla"), options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "no NVTX was found")) << run.err;
}

TEST(Nvtx, ALibraryThatIsNoneIsNoHarm) {
  if (!has_nvtx()) GTEST_SKIP() << "no NVTX";
  const Sandbox sandbox;
  for (const char* path : {"/no/such/library.so", RIDGELINE_BINARY}) {
    RunOptions options;
    options.environment = {{"NVTX_INJECTION64_PATH", path}};
    EXPECT_EQ(sandbox.run(tiny_model("vanilla") + Arguments{"--resume"}, options).exit_code, 0);
  }
}

}  // namespace
}  // namespace ridgeline

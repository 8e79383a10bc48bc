// How far NVRTC is: told kernel by kernel, one caller at a time, however many threads compile.
#include "jit/compile_hook.h"

#include <gtest/gtest.h>

#include <atomic>

#include "jit/cuda_jit.h"

namespace ridgeline {
namespace {

TEST(CompileHook, IsToldOfEveryKernelThatIsAskedForTogether) {
  if (nvrtc_version().empty()) GTEST_SKIP() << "no NVRTC on this machine";
  std::vector<CudaKernel> kernels;
  for (int i = 0; i < 5; ++i) {
    const std::string entry = "kernel_" + std::to_string(i % 4);  // one of them twice
    kernels.push_back({.file = entry + ".cu",
                       .entry = entry,
                       .text = "extern \"C\" __global__ void " + entry + "() {}\n"});
  }
  std::vector<size_t> told;
  std::atomic<int> callers = 0;
  const CudaJit jit(
      {.arch = "sm_80", .cache_dir = "off", .compiled = [&](size_t ready, size_t all) {
         EXPECT_EQ(++callers, 1);
         EXPECT_EQ(all, 4u);
         told.push_back(ready);
         --callers;
       }});
  jit.machine_codes(kernels);
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace ridgeline

// The tuner on a GPU that stands in for one (tests/jit/fake_gpu.cc).
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "jit/run_child.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline::tuner_test {
namespace {

TEST(Child, DISABLED_TunesWhatCannotRun) {
  CudaDevice device({.tuning = Tuning::quick, .jit = {.cache_dir = std::getenv("TUNED")}});
  int asked = 0;
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(device.chooser()("a key", 2,
                               [&](size_t) -> std::vector<CudaLaunch> {
                                 ++asked;
                                 throw Error(ErrorKind::out_of_memory, "no room");
                               }),
              0u);
  EXPECT_EQ(asked, 2) << "a process asks once";
}

// A choice on the disk would be taken for a measured one by every later process.
TEST(CudaTuner, AChoiceThatNobodyTimedIsNotKept) {
  const TempDir libraries, cache;
  std::filesystem::create_symlink(FAKE_GPU, libraries / "libcuda.so.1");
  const ChildResult child =
      run_child("TunesWhatCannotRun",
                {{"RIDGELINE_CUDA_LIBRARIES", libraries.path()}, {"TUNED", cache.path().string()}});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
  EXPECT_TRUE(contains(child.err, "no room")) << child.err;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache.path()))
    EXPECT_FALSE(contains(entry.path().filename(), "tuning-")) << entry.path();
}

}  // namespace
}  // namespace ridgeline::tuner_test

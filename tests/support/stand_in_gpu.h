// A folder with a driver that stands in for NVIDIA's (tests/jit/fake_gpu.cc) and the NVRTC of this
// machine, for RIDGELINE_CUDA_LIBRARIES. For test programs that are built with FAKE_GPU.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "jit/cuda_libraries.h"
#include "measure/test_support.h"

namespace ridgeline::testing {

class StandInGpu {
 public:
  StandInGpu() {
    std::filesystem::create_symlink(FAKE_GPU, folder_ / "libcuda.so.1");
    const std::filesystem::path nvrtc = std::filesystem::canonical(cuda_library("nvrtc").path);
    for (const auto& entry : std::filesystem::directory_iterator(nvrtc.parent_path()))
      if (entry.path().filename().string().starts_with("libnvrtc"))
        std::filesystem::create_symlink(entry.path(), folder_ / entry.path().filename());
  }
  std::string path() const { return folder_.path().string(); }

 private:
  TempDir folder_;
};

#define RIDGELINE_NEEDS_NVRTC() \
  if (!cuda_library("nvrtc")) GTEST_SKIP() << "no NVRTC"

}  // namespace ridgeline::testing

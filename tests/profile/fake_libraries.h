// Folders of libraries that stand in for NVIDIA's, for RIDGELINE_CUDA_LIBRARIES.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "jit/cuda_libraries.h"
#include "measure/test_support.h"

namespace ridgeline::testing {

// The fake of fake_cupti.cc and fake_pm_sampling.cc, fresh.
class FakeCupti {
 public:
  FakeCupti() {
    std::filesystem::copy_file(FAKE_CUPTI_LIBRARY, folder_ / "libcupti.so.13");
    library = find_cuda_library("cupti", {.variable = [&](const char* name) -> std::string {
                                  return std::string_view(name) == "RIDGELINE_CUDA_LIBRARIES"
                                             ? folder_.path().string()
                                             : "";
                                }});
    EXPECT_TRUE(library);
  }
  void launch(const char* name) { call<void(const char*)>("fake_launch")(name); }
  template <class Function>
  Function* call(const char* name) {
    return reinterpret_cast<Function*>(library.symbol(name));
  }

  CudaLibrary library;

 private:
  TempDir folder_;
};

// What the fake CUPTI is told, for as long as this lives.
class Told {
 public:
  explicit Told(const char* word) { setenv("FAKE_CUPTI", word, 1); }
  ~Told() { unsetenv("FAKE_CUPTI"); }
};

}  // namespace ridgeline::testing

// The GPU of tests that need one; they skip themselves where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline::testing {

// Empty: a GPU can be driven; else why not.
inline const std::string& why_no_gpu() {
  static const std::string reason = [] {
    try {
      CudaDevice device;
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  return reason;
}

#define RIDGELINE_NEEDS_GPU()                      \
  if (!::ridgeline::testing::why_no_gpu().empty()) \
  GTEST_SKIP() << "needs an NVIDIA GPU: " << ::ridgeline::testing::why_no_gpu()

}  // namespace ridgeline::testing

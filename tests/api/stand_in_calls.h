// Calls on a GPU that a driver stands in for (tests/jit/fake_gpu.cc; NVRTC is real): their tensors,
// and what was asked of that driver.
#pragma once

#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <array>
#include <vector>

#include "jit/cuda_libraries.h"
#include "jit/run_child.h"
#include "support/stand_in_gpu.h"

namespace ridgeline::api_testing {

constexpr int64_t kLength = 128, kWidth = 64;

struct Counts {
  long long launches = 0, loads = 0, allocations = 0, frees = 0, context_waits = 0;
};

template <class Function>
Function* stand_in(const char* name) {
  return reinterpret_cast<Function*>(cuda_library("cuda").symbol(name));
}

inline Counts counts() {
  Counts all;
  stand_in<void(long long*)>("fake_gpu_counts")(&all.launches);
  return all;
}

// Tensors whose memory nobody touches, as kernels of the stand-in do nothing.
struct GpuProblem {
  explicit GpuProblem(rl_dtype type = {RL_BFLOAT, 16, 1}) : dtype(type) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      memory[i].resize(shape[1] * kLength * kWidth * 4 + 256);
      const auto address = reinterpret_cast<uintptr_t>(memory[i].data());
      const rl_dtype own = i == 4 ? rl_dtype{RL_FLOAT, 32, 1} : dtype;
      tensors[i] = {reinterpret_cast<void*>((address + 255) / 256 * 256),
                    {RL_CUDA, 0},
                    i == 4 ? 3 : 4,
                    own,
                    shape,
                    nullptr,
                    0};
    }
    forward.size = sizeof forward;
    backward.size = sizeof backward;
    forward.q = backward.q = &tensors[0];
    forward.k = backward.k = &tensors[1];
    forward.v = backward.v = &tensors[2];
    forward.out = backward.out = &tensors[3];
    forward.log_sum_exp = backward.log_sum_exp = &tensors[4];
    backward.d_out = &tensors[5];
    backward.d_q = &tensors[6];
    backward.d_k = &tensors[7];
    backward.d_v = &tensors[8];
  }
  GpuProblem(const GpuProblem&) = delete;

  rl_dtype dtype;
  int64_t shape[4] = {1, 2, kLength, kWidth};
  std::array<std::vector<char>, 9> memory;
  std::array<rl_tensor, 9> tensors;
  rl_attention_forward_params forward = {};
  rl_attention_backward_params backward = {};
};

inline void expect_child_passes(const char* name, bool on_hopper = false) {
  const testing::StandInGpu gpu;
  const ChildResult child = run_child(name, {{"RIDGELINE_CUDA_LIBRARIES", gpu.path()},
                                             {"RIDGELINE_FAKE_HOPPER", on_hopper ? "1" : ""}});
  EXPECT_EQ(child.exit_code, 0) << child.out << child.err;
}

#define EXPECT_OK(call) EXPECT_EQ(call, RL_OK) << rl_last_error()

}  // namespace ridgeline::api_testing

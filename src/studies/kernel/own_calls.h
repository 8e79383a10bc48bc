// Runs the user's kernel on preallocated tensors, with guard bands around its output that detect
// out-of-bounds writes.
#pragma once

#include <filesystem>

#include "runtime/cuda/cuda_device.h"
#include "studies/kernel/calls.h"
#include "studies/kernel/own_source.h"

namespace ridgeline {

struct OwnKernelProblem {
  AttentionConfig config;
  std::filesystem::path folder;  // of the inputs, as WorkerTensors writes them
  int64_t copies = 1;
};

class OwnKernelCalls : public KernelCalls {
 public:
  // Throws a usage error for a launch that this GPU does not support.
  OwnKernelCalls(CudaDevice& device, const OwnKernelCode& code, const std::string& entry,
                 const OwnLaunch& launch, const OwnKernelProblem& problem);
  ~OwnKernelCalls() override;

  void forward(int64_t copy) override;
  void backward(int64_t copy) override;
  // Also checks that the guard bands and the inputs are unchanged; throws wrong_result otherwise.
  void run_poisoned(bool backward) override;
  std::vector<double> read(const char* tensor, int64_t head) const override;
  bool has_log_sum_exp() const override { return false; }
  bool can_be_captured() const override { return true; }

  void check_bounds() const;
  void write_output(const std::filesystem::path& path) const;

 private:
  struct Tensors;

  TensorView view(void* data) const;
  std::vector<char> download(void* data, int64_t bytes) const;

  CudaDevice& device_;
  OwnLaunch launch_;
  OwnKernelProblem problem_;
  int64_t bytes_;  // of one tensor
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
  std::vector<Allocation> memory_;
  std::vector<Tensors> copies_;
  void* banded_ = nullptr;  // the first copy's output with its guard bands
};

}  // namespace ridgeline

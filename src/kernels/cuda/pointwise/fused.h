// Generated CUDA kernels as launches: how threads share the work, and the bytes of the parameters.
#pragma once

#include <span>
#include <vector>

#include "codegen/emit.h"
#include "kernels/cuda/launch.h"

namespace ridgeline {

// How threads share a kernel's work, from its widths, dtypes and strides alone.
CudaShape cuda_shape(const FusedKernel& kernel);

class CudaFusedKernel {
 public:
  explicit CudaFusedKernel(const FusedKernel& kernel);

  // Texts to be compiled before the first launch.
  std::vector<CudaKernel> kernels() const;

  // Addresses of storages as in FusedProgram.
  std::vector<CudaLaunch> launches(std::span<void* const> inputs, std::span<void* const> outputs,
                                   void* scratch) const;

 private:
  CudaLaunch main_, finish_;
  bool has_finish_ = false;
  std::vector<uint64_t> words_;                     // of the parameters, without addresses
  std::vector<size_t> input_words_, output_words_;  // the words of addresses
  std::vector<int64_t> input_offsets_;              // added to addresses, in bytes
  std::vector<bool> is_position_;
  std::vector<int64_t> output_offsets_;
  int64_t rows_ = 0, columns_ = 0, parts_ = 0;
};

}  // namespace ridgeline

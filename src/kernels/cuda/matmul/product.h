// Generated kernels with a product inside, as launches (product_warpgroups.cuh).
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/launch.h"
#include "plan/fused_kernel.h"

namespace ridgeline {

// Whether a device has the instructions that these kernels stand on.
bool has_product_kernels(const CudaFacts& device);

class CudaProductKernel {
 public:
  // Throws an unsupported error for other devices.
  CudaProductKernel(const FusedKernel& kernel, const EmitOptions& options, const CudaFacts& device);

  const CudaKernel& kernel() const { return launch_.kernel; }

  // Addresses of storages as in FusedProgram::run: behind those of the inputs come the matrices'.
  CudaLaunch launch(std::span<void* const> inputs, std::span<void* const> outputs,
                    const CudaFacts& device) const;

 private:
  CudaLaunch launch_;             // but for addresses and grid
  int64_t clusters_;              // that have a tile to begin with
  std::vector<int64_t> offsets_;  // of inputs, matrices and results, in bytes
};

}  // namespace ridgeline

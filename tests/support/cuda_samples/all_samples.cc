#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "support/cuda_samples/samples.h"

namespace ridgeline {

std::vector<CudaKernel> cuda_kernel_samples(int compute_capability) {
  std::vector<CudaKernel> kernels = eager_kernel_samples();
  for (CudaKernel& kernel : flash_samples(compute_capability)) kernels.push_back(std::move(kernel));
  for (CudaKernel& kernel : gemm_samples()) kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace ridgeline

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "kernels/cuda/matmul/few_rows.h"
#include "support/cuda_samples/samples.h"

namespace ridgeline {
namespace {

// Every number of tiles and of splits.
std::vector<CudaKernel> few_rows_samples(int compute_capability) {
  std::vector<CudaKernel> kernels;
  for (const int64_t tokens : {1, 16, 32})
    for (const int64_t rows : {320, 2560, 65536})
      for (const CudaLaunch& way : plan_few_rows({.x_stride = 640,
                                   .w_stride = 640,
                                   .out_stride = rows,
                                   .tokens = tokens,
                                   .rows = rows,
                                   .columns = 640,
                                   .dtype = rows == 320 ? DType::f16 : DType::bf16,
                                   .weights_are_kept = rows != 320},
                                                 {.compute_capability = compute_capability}))
        kernels.push_back(way.kernel);
  return kernels;
}

}  // namespace

std::vector<CudaKernel> cuda_kernel_samples(int compute_capability) {
  std::vector<CudaKernel> kernels = eager_kernel_samples(compute_capability);
  for (CudaKernel& kernel : flash_samples(compute_capability)) kernels.push_back(std::move(kernel));
  for (CudaKernel& kernel : gemm_samples()) kernels.push_back(std::move(kernel));
  for (CudaKernel& kernel : few_rows_samples(compute_capability))
    kernels.push_back(std::move(kernel));
  return kernels;
}

}  // namespace ridgeline

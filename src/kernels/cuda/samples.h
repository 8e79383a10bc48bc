// Specialisations that together cover every CUDA kernel, for tests that compile them without a GPU.
#pragma once

#include <vector>

#include "kernels/cuda/launch.h"

namespace ridgeline {

std::vector<CudaKernel> cuda_kernel_samples();

}  // namespace ridgeline

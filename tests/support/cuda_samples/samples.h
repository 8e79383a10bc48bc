// Specialisations that together cover every CUDA kernel, for tests that compile them without a GPU.
#pragma once

#include <vector>

#include "kernels/cuda/launch.h"

namespace ridgeline {

// What planners ask for on a GPU of this compute capability.
std::vector<CudaKernel> cuda_kernel_samples(int compute_capability);

}  // namespace ridgeline

// Names for the files of a kernel.
#pragma once

#include <string>

#include "kernels/cuda/launch.h"

namespace ridgeline {

// Readable, without a suffix: "flash_forward-HEAD_DIM_64-CAUSAL_1-sm_90a".
std::string kernel_file_name(const CudaKernel& kernel, const std::string& arch);

}  // namespace ridgeline

// Every function of the driver, for a library that stands in for libcuda.so.1: all say that there
// is no device, but for those that fake_driver_names.cc defines.
#include "runtime/cuda/driver_api.h"

#define RIDGELINE_FAKE(name, result, arguments) \
  extern "C" __attribute__((weak)) int name() { \
    return 100;                                 \
  }
RIDGELINE_CUDA_DRIVER_FUNCTIONS(RIDGELINE_FAKE)

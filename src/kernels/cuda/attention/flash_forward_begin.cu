// Sets the counter of tiles to zero, before the forward kernel whose blocks draw from it.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void flash_forward_begin(const __grid_constant__ FlashForwardParams p) {
  wait_for_earlier_kernels();
  *p.next_tile = 0;
}

}  // namespace ridgeline

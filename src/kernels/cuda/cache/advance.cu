// Advances the position by a number of rows, by one thread.
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void advance(const __grid_constant__ AdvanceParams p) {
  wait_for_earlier_kernels();
  *p.position += p.count;
}

}  // namespace ridgeline

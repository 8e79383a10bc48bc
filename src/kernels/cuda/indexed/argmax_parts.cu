// The index of the largest element of each row, from the keys of its parts: block x reduces row x.
//
// Constants: THREADS (of a block).
#include "argmax.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    argmax_parts(const __grid_constant__ ArgmaxParams p) {
  wait_for_earlier_kernels();
  const Key* keys = p.keys + static_cast<int64>(blockIdx.x) * p.parts;
  Key best = 0;
  for (int part = threadIdx.x; part < p.parts; part += THREADS) best = larger_key(best, keys[part]);
  best = largest_of_block(best);
  if (threadIdx.x == 0) p.out[blockIdx.x] = place_of(best);
}

}  // namespace ridgeline

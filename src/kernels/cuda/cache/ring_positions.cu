// For each slot of a ring the position whose row it holds: one thread per slot.
//
// Constants: THREADS (of a block).
#include "elements.cuh"
#include "params.h"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    ring_positions(const __grid_constant__ RingPositionsParams p) {
  wait_for_earlier_kernels();
  const int slot = blockIdx.x * THREADS + threadIdx.x;
  if (slot >= p.slots) return;
  const int64 last = static_cast<int64>(*p.position) + p.count - 1;
  const int64 behind = (last - slot) % p.slots;
  p.out[slot] = static_cast<int>(last - (behind < 0 ? behind + p.slots : behind));
}

}  // namespace ridgeline

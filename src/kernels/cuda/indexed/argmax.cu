// The index of the largest element in each part of each row: block (x, y) searches part x of row y.
//
// Constants: TYPE, PACK (elements of one access), THREADS (of a block).
#include "argmax.cuh"

namespace ridgeline {

constexpr int kTogether = 4;  // loads in flight

extern "C" __global__ void __launch_bounds__(THREADS)
    argmax(const __grid_constant__ ArgmaxParams p) {
  wait_for_earlier_kernels();
  const int row = blockIdx.y;
  const TYPE* x = static_cast<const TYPE*>(p.x) + row * p.row_step;
  const int64 begin = blockIdx.x * p.part_size;
  const int64 end = begin + p.part_size < p.width ? begin + p.part_size : p.width;
  Key best = 0;
  for (int64 at = begin + threadIdx.x * PACK; at < end; at += kTogether * THREADS * PACK) {
    Pack<TYPE, PACK> packs[kTogether];
#pragma unroll
    for (int t = 0; t < kTogether; ++t)
      if (const int64 column = at + t * THREADS * PACK; column < end)
        packs[t] = load_pack<PACK>(x + column * p.column_step);
#pragma unroll
    for (int t = 0; t < kTogether; ++t)
      if (const int64 column = at + t * THREADS * PACK; column < end)
#pragma unroll
        for (int i = 0; i < PACK; ++i)
          best = larger_key(best, key_of(widen(packs[t].at[i]), static_cast<unsigned>(column + i)));
  }
  best = largest_of_block(best);
  if (threadIdx.x != 0) return;
  if (p.parts == 1)
    p.out[row] = place_of(best);
  else
    p.keys[static_cast<int64>(row) * p.parts + blockIdx.x] = best;
}

}  // namespace ridgeline

// A reduction whose reduced axes are contiguous in memory: GROUP adjacent threads share a result.
#include "reduce.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_rows(const __grid_constant__ ReduceParams p) {
  wait_for_earlier_kernels();
  const int64 result = static_cast<int64>(blockIdx.x) * (THREADS / GROUP) + threadIdx.x / GROUP;
  const bool present = result < p.results;
  const IN* data = static_cast<const IN*>(p.data) +
                   walk_offset<KEPT_AXES>(present ? result : 0, p.kept_sizes, p.kept_steps);
  const Range range = range_of_part(p);
  float places[PACK];
  fold_items(p, data, range.first + threadIdx.x % GROUP, present ? range.end : 0, GROUP, places);
  float total = places[0];
#pragma unroll
  for (int i = 1; i < PACK; ++i) total = FOLD::fold(total, places[i]);
  total = fold_group<FOLD, GROUP>(total);
  if (present && threadIdx.x % GROUP == 0)
    static_cast<OUT*>(p.out)[blockIdx.y * p.results + result] = Narrow<OUT>::from(total * p.scale);
}

}  // namespace ridgeline

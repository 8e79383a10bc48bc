// A reduction whose kept axes are contiguous in memory: adjacent threads have adjacent items of PACK results.
#include "reduce.cuh"

namespace ridgeline {

constexpr int kLanes = 32;  // along the kept axes; the other threads share the reduced ones

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_columns(const __grid_constant__ ReduceParams p) {
  wait_for_earlier_kernels();
  constexpr int kRows = THREADS / kLanes;
  __shared__ float partial[kRows][kLanes][PACK];
  const int lane = threadIdx.x % kLanes;
  const int row = threadIdx.x / kLanes;
  const int64 item = static_cast<int64>(blockIdx.x) * kLanes + lane;
  const bool present = item * PACK < p.results;
  const IN* data = static_cast<const IN*>(p.data) +
                   walk_offset<KEPT_AXES>(present ? item : 0, p.kept_sizes, p.kept_steps);
  const Range range = range_of_part(p);
  float places[PACK];
  fold_items(p, data, range.first + row, present ? range.end : 0, kRows, places);
#pragma unroll
  for (int i = 0; i < PACK; ++i) partial[row][lane][i] = places[i];
  __syncthreads();
  if (row != 0 || !present) return;
  OUT* out = static_cast<OUT*>(p.out) + blockIdx.y * p.results + item * PACK;
#pragma unroll
  for (int i = 0; i < PACK; ++i) {
    float total = partial[0][lane][i];
    for (int other = 1; other < kRows; ++other) total = FOLD::fold(total, partial[other][lane][i]);
    out[i] = Narrow<OUT>::from(total * p.scale);
  }
}

}  // namespace ridgeline

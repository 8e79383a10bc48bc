// Sums of squares of many tensors: a block adds up PIECE elements of one of them; a reduction adds up the blocks' sums.
//
// Constants: TYPE, PACK (elements of one access; 1: elements may have a stride), PIECE (elements of a block), THREADS.
#include "groups.cuh"
#include "tensor_list.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    sum_of_squares(const __grid_constant__ SumOfSquaresParams p) {
  wait_for_earlier_kernels();
  const auto& tensor = p.tensors[tensor_of_block(p.tensors, p.count)];
  const int64 begin = static_cast<int64>(blockIdx.x - tensor.first_block) * PIECE;
  const int64 end = begin + PIECE < tensor.count ? begin + PIECE : tensor.count;
  const TYPE* data = static_cast<const TYPE*>(tensor.data);
  float total = 0;
  for (int64 at = begin + threadIdx.x * PACK; at < end; at += THREADS * PACK) {
    float part = 0;
    if (PACK > 1 && at + PACK <= end) {
      const Pack<TYPE, PACK> pack = load_pack<PACK>(data + at);
#pragma unroll
      for (int i = 0; i < PACK; ++i) part += widen(pack.at[i]) * widen(pack.at[i]);
    } else {
      for (int i = 0; i < PACK && at + i < end; ++i) {
        const float value = widen(data[(at + i) * (PACK > 1 ? 1 : tensor.step)]);
        part += value * value;
      }
    }
    total += part;
  }
  total = fold_group<Sum, THREADS>(total);
  if (threadIdx.x == 0) p.sums[blockIdx.x] = total;
}

}  // namespace ridgeline

// The gradient of softmax along rows, y (d_y - sum of y d_y), or of log-softmax, d_y - e^y (sum of d_y), in fp32 with
// rows in registers.
#include "softmax_gradient.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    softmax_gradient(const __grid_constant__ RowsParams p) {
  wait_for_earlier_kernels();
  const Share share = share_of(p);
  const int width = static_cast<int>(p.width);
  const Row y = row_of(p, 0, share.present ? share.row : 0);
  const Row d_y = row_of(p, 1, share.present ? share.row : 0);
  Packed weights[CHUNKS], gradients[CHUNKS];
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    const bool inside = share.present && share.column(c) < width;
    weights[c] = inside ? y.load(share.column(c)) : filled(0);
    gradients[c] = inside ? d_y.load(share.column(c)) : filled(0);
  }
  float dot = 0;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    float part = 0;
#pragma unroll
    for (int i = 0; i < PACK; ++i) part += product_of(weights[c].at[i], gradients[c].at[i]);
    dot += part;
  }
  dot = fold_group<Sum, GROUP>(dot);
  TYPE* out = static_cast<TYPE*>(p.out) + static_cast<int64>(share.row) * p.width;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    if (!share.present || share.column(c) >= width) continue;
    Packed pack;
#pragma unroll
    for (int i = 0; i < PACK; ++i)
      pack.at[i] = gradient_of(weights[c].at[i], gradients[c].at[i], dot);
    store_pack(out + share.column(c), pack);
  }
}

}  // namespace ridgeline

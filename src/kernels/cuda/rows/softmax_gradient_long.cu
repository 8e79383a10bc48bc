// The gradient of softmax along rows that do not fit the registers: CHUNKS packs at a time, read twice.
#include "softmax_gradient.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_gradient_long(const __grid_constant__ RowsParams p) {
  wait_for_earlier_kernels();
  const Share share = share_of(p);
  const Row y = row_of(p, 0, share.row);
  const Row d_y = row_of(p, 1, share.row);
  float dot = 0;
  for (int64 base = 0; base < p.width; base += CHUNKS * GROUP * PACK) {
    float part = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int64 column = base + share.column(c);
      const Packed weight = column < p.width ? y.load(column) : filled(0);
      const Packed gradient = column < p.width ? d_y.load(column) : filled(0);
#pragma unroll
      for (int i = 0; i < PACK; ++i) part += product_of(weight.at[i], gradient.at[i]);
    }
    dot += part;
  }
  dot = fold_group<Sum, GROUP>(dot);
  TYPE* out = static_cast<TYPE*>(p.out) + static_cast<int64>(share.row) * p.width;
  for (int64 base = 0; base < p.width; base += CHUNKS * GROUP * PACK) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int64 column = base + share.column(c);
      if (column >= p.width) continue;
      const Packed weight = y.load(column);
      const Packed gradient = d_y.load(column);
      Packed pack;
#pragma unroll
      for (int i = 0; i < PACK; ++i) pack.at[i] = gradient_of(weight.at[i], gradient.at[i], dot);
      store_pack(out + column, pack);
    }
  }
}

}  // namespace ridgeline

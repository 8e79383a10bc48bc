// Softmax or log-softmax along rows, in fp32. A group of threads holds a row in registers, so memory is accessed once.
#include "rows.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    softmax(const __grid_constant__ RowsParams p) {
  wait_for_earlier_kernels();
  const Share share = share_of(p);
  const int width = static_cast<int>(p.width);
  const Row x = row_of(p, 0, share.present ? share.row : 0);
  float values[CHUNKS][PACK];
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    const bool inside = share.present && share.column(c) < width;
    const Packed pack = inside ? x.load(share.column(c)) : filled(-infinity());
#pragma unroll
    for (int i = 0; i < PACK; ++i) values[c][i] = widen(pack.at[i]);
  }
  float largest = -infinity();
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
    for (int i = 0; i < PACK; ++i) largest = larger(largest, values[c][i]);
  largest = fold_group<Max, GROUP>(largest);
  float total = 0;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    float part = 0;
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
      const float weight = expf(values[c][i] - largest);
      if (!LOG) values[c][i] = weight;
      part += weight;
    }
    total += part;
  }
  total = fold_group<Sum, GROUP>(total);
  const float scale = LOG ? 1.0f : 1.0f / total;
  const float shift = LOG ? logf(total) : 0.0f;
  TYPE* out = static_cast<TYPE*>(p.out) + static_cast<int64>(share.row) * p.width;
#pragma unroll
  for (int c = 0; c < CHUNKS; ++c) {
    if (!share.present || share.column(c) >= width) continue;
    Packed pack;
#pragma unroll
    for (int i = 0; i < PACK; ++i)
      pack.at[i] = Narrow<TYPE>::from(LOG ? values[c][i] - largest - shift : values[c][i] * scale);
    store_pack(out + share.column(c), pack);
  }
}

}  // namespace ridgeline

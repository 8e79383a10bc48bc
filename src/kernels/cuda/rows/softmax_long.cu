// Softmax or log-softmax along rows that do not fit the registers of a block: CHUNKS packs at a time, read twice.
#include "rows.cuh"

namespace ridgeline {

extern "C" __global__ void __launch_bounds__(THREADS)
    softmax_long(const __grid_constant__ RowsParams p) {
  wait_for_earlier_kernels();
  const Share share = share_of(p);
  const Row x = row_of(p, 0, share.row);
  float largest = -infinity();
  float total = 0;
  for (int64 base = 0; base < p.width; base += CHUNKS * GROUP * PACK) {
    Packed packs[CHUNKS];
    float here = largest;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int64 column = base + share.column(c);
      packs[c] = column < p.width ? x.load(column) : filled(-infinity());
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
      for (int i = 0; i < PACK; ++i) here = larger(here, widen(packs[c].at[i]));
    if (here == -infinity()) continue;  // all are -inf so far: -inf - -inf would be NaN
    float part = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c)
#pragma unroll
      for (int i = 0; i < PACK; ++i) part += expf(widen(packs[c].at[i]) - here);
    total = total * expf(largest - here) + part;
    largest = here;
  }
  const float row_largest = fold_group<Max, GROUP>(largest);
  if (largest != row_largest) total *= expf(largest - row_largest);
  total = fold_group<Sum, GROUP>(total);
  const float scale = LOG ? 1.0f : 1.0f / total;
  const float shift = LOG ? logf(total) : 0.0f;
  TYPE* out = static_cast<TYPE*>(p.out) + static_cast<int64>(share.row) * p.width;
  for (int64 base = 0; base < p.width; base += CHUNKS * GROUP * PACK) {
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      const int64 column = base + share.column(c);
      if (column >= p.width) continue;
      Packed pack = x.load(column);
#pragma unroll
      for (int i = 0; i < PACK; ++i) {
        const float x_shifted = widen(pack.at[i]) - row_largest;
        pack.at[i] = Narrow<TYPE>::from(LOG ? x_shifted - shift : expf(x_shifted) * scale);
      }
      store_pack(out + column, pack);
    }
  }
}

}  // namespace ridgeline

// Reduces axes of a tensor by sum, mean or max: in fp32, in a fixed order. Long reductions of few results are divided
// into parts, one per blockIdx.y, whose results are reduced again.
//
// Constants: FOLD (Sum, Max), IN, OUT (element types), PACK (elements of one access), THREADS (of a block), GROUP
// (threads of a result, in reduce_rows.cu), KEPT_AXES, REDUCED_AXES.
#pragma once

#include "groups.cuh"
#include "params.h"

namespace ridgeline {

constexpr int kRun = 16;      // items folded before they join the total, which keeps sums accurate
constexpr int kTogether = 4;  // loads in flight

// Folds the items first, first + stride, ... below `end` of the reduced axes, each of the PACK elements on its own.
__device__ __forceinline__ void fold_items(const ReduceParams& p, const IN* data, int64 first,
                                           int64 end, int64 stride, float (&total)[PACK]) {
#pragma unroll
  for (int i = 0; i < PACK; ++i) total[i] = FOLD::neutral();
  for (int64 run = first; run < end; run += kRun * stride) {
    float part[PACK];
#pragma unroll
    for (int i = 0; i < PACK; ++i) part[i] = FOLD::neutral();
    for (int step = 0; step < kRun; step += kTogether) {
      Pack<IN, PACK> packs[kTogether];
      bool inside[kTogether];
#pragma unroll
      for (int t = 0; t < kTogether; ++t) {
        const int64 item = run + (step + t) * stride;
        inside[t] = item < end;
        if (inside[t])
          packs[t] = load_pack<PACK>(
              data + walk_offset<REDUCED_AXES>(item, p.reduced_sizes, p.reduced_steps));
      }
#pragma unroll
      for (int t = 0; t < kTogether; ++t)
        if (inside[t])
#pragma unroll
          for (int i = 0; i < PACK; ++i) part[i] = FOLD::fold(part[i], widen(packs[t].at[i]));
    }
#pragma unroll
    for (int i = 0; i < PACK; ++i) total[i] = FOLD::fold(total[i], part[i]);
  }
}

struct Range {
  int64 first, end;
};

__device__ __forceinline__ Range range_of_part(const ReduceParams& p) {
  const int64 first = blockIdx.y * p.part_size;
  return {first, first + p.part_size < p.reduced ? first + p.part_size : p.reduced};
}

}  // namespace ridgeline

// The table of flash attention kernels of this instruction set.
#include "kernels/cpu/simd/flash_entries.h"
#include "kernels/cpu/simd/flash_tiles.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

int64_t backward_scratch_floats(int64_t head_dim) {
  const int64_t by_keys = key_scratch_floats(head_dim);
  const int64_t by_queries = query_scratch_floats(head_dim);
  return by_keys > by_queries ? by_keys : by_queries;
}

void store_sums(const float* sums, int64_t row_stride, const FlashRows& to, FlashRange rows,
                int64_t head_dim) {
  store_rows(sums, row_stride, nullptr, to, rows, head_dim);
}

int64_t padded_head_dim(int64_t head_dim) {
  return round_up(head_dim, kLanes);
}

}  // namespace

const FlashKernels kFlashKernels = {
    .forward = {forward_tile_sizes, forward_scratch_floats, forward},
    .backward = {.tile_sizes = backward_tile_sizes,
                 .scratch_floats = backward_scratch_floats,
                 .prepare_queries = prepare_queries,
                 .query_gradient = query_gradient,
                 .begin_keys = begin_keys,
                 .find_score_gradients = find_score_gradients,
                 .add_queries = add_queries,
                 .add_query_gradient = add_query_gradient,
                 .finish_keys = finish_keys},
    .store_rows = store_sums,
    .padded_head_dim = padded_head_dim,
};

}  // namespace ridgeline::RIDGELINE_ISA

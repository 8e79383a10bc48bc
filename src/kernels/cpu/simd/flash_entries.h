// The entries of this instruction set's FlashKernels table; flash_kernels.h describes them.
#pragma once

#include "kernels/cpu/simd/flash_kernels.h"

namespace ridgeline::RIDGELINE_ISA {

FlashTileSizes forward_tile_sizes(int64_t head_dim);
int64_t forward_scratch_floats(int64_t head_dim);
void forward(const FlashForwardTile& tile, float* scratch);

FlashTileSizes backward_tile_sizes(int64_t head_dim);
int64_t key_scratch_floats(int64_t head_dim);
void begin_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch);
void find_score_gradients(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                          float* scratch);
void add_queries(const FlashBackwardHead& head, FlashRange keys, FlashRange queries, bool first,
                 float* scratch);
void add_query_gradient(const FlashBackwardHead& head, FlashRange keys, FlashRange queries,
                        float* accumulator, int64_t row_stride, bool first, float* scratch);
void finish_keys(const FlashBackwardHead& head, FlashRange keys, float* scratch);

int64_t query_scratch_floats(int64_t head_dim);
void prepare_queries(const FlashBackwardHead& head, FlashRange queries, float* scratch);
void query_gradient(const FlashBackwardHead& head, FlashRange queries, float* scratch);

}  // namespace ridgeline::RIDGELINE_ISA

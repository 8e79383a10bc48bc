// Flash attention forward: one task per batch, head and query tile.
#include "kernels/cpu/flash.h"

#include "kernels/cpu/flash_problem.h"
#include "kernels/cpu/score_tiles.h"

namespace ridgeline {
namespace {

// Halves the tile while threads would have no tasks, or unequal parts of a causal mask. A block of
// queries gives the same bits in any tile, except under a window, where its keys begin elsewhere.
int64_t shared_out(int64_t tile, const AttentionSizes& sizes, const FlashMask& mask, int threads) {
  constexpr int64_t kLeastQueries = 32;
  const int64_t wanted = mask.causal ? 2 * int64_t{threads} : threads;
  while (mask.window == 0 && tile > kLeastQueries &&
         sizes.batch * sizes.heads * divide_up(sizes.queries, tile) < wanted)
    tile /= 2;
  return tile;
}

}  // namespace

void flash_forward(const FlashForward& problem, const CpuContext& context) {
  const AttentionSizes sizes = sizes_of(problem.q, problem.k);
  const bool in_blocks = fits_blocks(context.isa, {problem.q, problem.k, problem.v});
  const FlashForwardKernel& kernel =
      in_blocks && context.isa == Isa::amx ? avx512::kForwardByMatrixUnits
      : in_blocks                          ? avx512::kForwardByDots
                  : pick(context.isa, portable::kForward, avx2::kForward, avx512::kForward);
  const FlashMask mask = resolve(problem.mask, sizes);
  int64_t tile = kernel.tiles.queries;
  if (in_blocks) tile = shared_out(tile, sizes, mask, context.pool.threads());
  const int64_t tiles = divide_up(sizes.queries, tile);
  const ThreadScratch scratch(context.pool, kernel.scratch_floats(sizes.head_dim));

  context.pool.for_each(sizes.batch * sizes.heads * tiles, [&](int64_t index, int thread) {
    // Under a causal mask later tiles see more keys: the longest go first, the shortest fill gaps.
    const int64_t query_tile = tiles - 1 - index % tiles;
    const int64_t head = index / tiles % sizes.heads;
    const int64_t batch = index / tiles / sizes.heads;
    const int64_t key_head = head / sizes.group();
    const Strides& lse_strides = problem.log_sum_exp.strides;
    kernel.run({.q = rows_of(problem.q, batch, head),
                .k = rows_of(problem.k, batch, key_head),
                .v = rows_of(problem.v, batch, key_head),
                .out = rows_of(problem.out, batch, head),
                .log_sum_exp = problem.log_sum_exp.as<float>() + batch * lse_strides[0] +
                               head * lse_strides[1],
                .log_sum_exp_stride = lse_strides[2],
                .queries = tile_range(query_tile, tile, sizes.queries),
                .head_dim = sizes.head_dim,
                .scale = problem.scale,
                .mask = mask,
                .function = problem.function != nullptr ? problem.function->of_head(batch, head)
                                                        : FlashFunction{}},
               scratch.of(thread));
  });
}

}  // namespace ridgeline

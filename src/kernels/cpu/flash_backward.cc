// Flash attention backward: two passes over tiles, or one that sums dQ in the order of key tiles.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/flash_problem.h"
#include "kernels/cpu/score_tiles.h"

namespace ridgeline {
namespace {

// Bound on the fp32 sums of dQ that the single pass keeps when d_q itself cannot hold them; one key
// head may exceed it.
constexpr int64_t kAccumulatorBytes = int64_t{16} << 20;

constexpr int64_t kTilesOfShortHead = 8;

// Key tile j may add to a query tile when all earlier ones have, so that the order of the sum does
// not depend on the number of threads. The pool hands out the key tiles of a head in increasing
// order, so the earliest running one never waits.
class Turn {
 public:
  void reset(int64_t first) { next_.store(first, std::memory_order_relaxed); }
  void wait_for(int64_t turn) const {
    for (int spin = 0; next_.load(std::memory_order_acquire) != turn; ++spin) {
      if (spin < 1000)
        __builtin_ia32_pause();
      else
        std::this_thread::yield();
    }
  }
  void pass() { next_.store(next_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  std::atomic<int64_t> next_{0};
};

class Backward {
 public:
  Backward(const FlashBackward& problem, const CpuContext& context)
      : problem_(problem),
        sizes_(sizes_of(problem.q, problem.k)),
        pool_(context.pool),
        in_blocks_(fits_blocks(context.isa, {problem.q, problem.k, problem.v, problem.d_out})),
        backward_(in_blocks_ && context.isa == Isa::amx ? avx512::kBackwardByMatrixUnits
                  : in_blocks_
                      ? avx512::kBackwardByDots
                      : pick(context.isa, portable::kBackward, avx2::kBackward, avx512::kBackward)),
        mask_(resolve(problem.mask, sizes_)),
        tile_(tile_sizes()),
        query_tiles_(divide_up(sizes_.queries, tile_.queries)),
        key_tiles_(divide_up(sizes_.keys, tile_.keys)),
        delta_(sizes_.batch * sizes_.heads * sizes_.queries),
        log_sum_exp_(sizes_.batch * sizes_.heads * sizes_.queries),
        scratch_(context.pool, backward_.scratch_floats(sizes_.head_dim)),
        zeros_(static_cast<size_t>(padded())) {
    for (int64_t i = 0; i < query_tiles_; ++i) visible_.push_back(visible_key_tiles(i));
  }

  void run() {
    prepare();
    if (problem_.algorithm == BackwardAlgorithm::two_pass) {
      query_pass();
      key_pass();
    } else {
      single_pass();
    }
    if (problem_.function != nullptr && problem_.function->has_sums()) operand_pass();
  }

 private:
  // Fewer keys per tile while threads would have no tasks. In blocks of bf16 the order of sums does
  // not depend on it: they are added up one by one in any case.
  FlashTileSizes tile_sizes() const {
    constexpr int64_t kLeastKeys = 64;
    FlashTileSizes tile = backward_.tiles;
    const int64_t heads = sizes_.batch * sizes_.key_heads;
    while (in_blocks_ && tile.keys > kLeastKeys &&
           heads * divide_up(sizes_.keys, tile.keys) < pool_.threads())
      tile.keys /= 2;
    return tile;
  }

  FlashRange queries(int64_t tile) const { return tile_range(tile, tile_.queries, sizes_.queries); }
  FlashRange keys(int64_t tile) const { return tile_range(tile, tile_.keys, sizes_.keys); }

  FlashRange visible_key_tiles(int64_t query_tile) const {
    const FlashRange visible = visible_keys(mask_, queries(query_tile));
    if (visible.begin == visible.end) return {0, 0};
    return {visible.begin / tile_.keys, divide_up(visible.end, tile_.keys)};
  }

  bool sees(int64_t query_tile, int64_t key_tile) const {
    const FlashRange& visible = visible_[static_cast<size_t>(query_tile)];
    return visible.begin <= key_tile && key_tile < visible.end;
  }

  FlashBackwardHead head(int64_t batch, int64_t index) const {
    const int64_t key_head = index / sizes_.group();
    const int64_t rows = (batch * sizes_.heads + index) * sizes_.queries;
    const Strides& lse_strides = problem_.log_sum_exp.strides;
    return {.q = rows_of(problem_.q, batch, index),
            .k = rows_of(problem_.k, batch, key_head),
            .v = rows_of(problem_.v, batch, key_head),
            .out = rows_of(problem_.out, batch, index),
            .d_out = rows_of(problem_.d_out, batch, index),
            .d_q = rows_of(problem_.d_q, batch, index),
            .d_k = rows_of(problem_.d_k, batch, key_head),
            .d_v = rows_of(problem_.d_v, batch, key_head),
            .log_sum_exp =
                problem_.log_sum_exp.as<float>() + batch * lse_strides[0] + index * lse_strides[1],
            .log_sum_exp_stride = lse_strides[2],
            .delta = delta_.data() + rows,
            .row_log_sum_exp = log_sum_exp_.data() + rows,
            .head_dim = sizes_.head_dim,
            .scale = problem_.scale,
            .mask = mask_,
            .function = problem_.function != nullptr ? problem_.function->of_head(batch, index)
                                                     : FlashFunction{}};
  }

  template <class F>
  void for_each_query_tile(F f) {
    pool_.for_each(sizes_.batch * sizes_.heads * query_tiles_, [&](int64_t index, int thread) {
      // The longest tiles of a causal mask come first, as in the forward.
      const int64_t tile = query_tiles_ - 1 - index % query_tiles_;
      const int64_t row = index / query_tiles_;
      f(head(row / sizes_.heads, row % sizes_.heads), tile, scratch_.of(thread));
    });
  }

  void clear(const FlashRows& rows, FlashRange range) const {
    backward_.store_rows(zeros_.data(), 0, nullptr, rows, range, sizes_.head_dim);
  }

  // Sums beside the tensor have rows up to a multiple of kAccumulatorRows.
  void clear_sums(float* sums, int64_t stride, int64_t rows, bool in_place) const {
    if (!in_place) rows = divide_up(rows, kAccumulatorRows) * kAccumulatorRows;
    for (int64_t row = 0; row < rows; ++row)
      std::fill_n(sums + row * stride, in_place ? sizes_.head_dim : padded(), 0.0f);
  }

  void prepare() {
    const bool single_pass = problem_.algorithm == BackwardAlgorithm::single_pass;
    for_each_query_tile([&](const FlashBackwardHead& at, int64_t tile, float* scratch) {
      backward_.prepare_queries(at, queries(tile), scratch);
      // The single pass writes dQ from key tiles, so a query tile that sees none is cleared here.
      const FlashRange& visible = visible_[static_cast<size_t>(tile)];
      if (single_pass && visible.begin == visible.end) clear(at.d_q, queries(tile));
    });
  }

  void query_pass() {
    for_each_query_tile([&](const FlashBackwardHead& at, int64_t tile, float* scratch) {
      backward_.query_gradient(at, queries(tile), scratch);
    });
  }

  // Runs all query tiles of all heads that share a key tile, then(head, index, query_tile, seen)
  // after each; tiles that the score function hides are not computed.
  template <class F>
  void accumulate_keys(int64_t batch, int64_t key_head, int64_t key_tile, float* scratch, F then) {
    const int64_t first_head = key_head * sizes_.group();
    const FlashBackwardHead shared = head(batch, first_head);
    bool first = true;
    backward_.begin_keys(shared, keys(key_tile), scratch);
    for (int64_t index = first_head; index < first_head + sizes_.group(); ++index) {
      const FlashBackwardHead at = head(batch, index);
      for (int64_t tile = 0; tile < query_tiles_; ++tile) {
        if (!sees(tile, key_tile)) continue;
        const bool seen = is_seen(at.function, {queries(tile), keys(key_tile), false, tile_.keys});
        if (seen) {
          backward_.find_score_gradients(at, keys(key_tile), queries(tile), scratch);
          backward_.add_queries(at, keys(key_tile), queries(tile), first, scratch);
          first = false;
        }
        then(at, index, tile, seen);
      }
    }
    if (!first) return backward_.finish_keys(shared, keys(key_tile), scratch);
    clear(shared.d_k, keys(key_tile));
    clear(shared.d_v, keys(key_tile));
  }

  void key_pass() {
    pool_.for_each(sizes_.batch * sizes_.key_heads * key_tiles_, [&](int64_t index, int thread) {
      const int64_t row = index / key_tiles_;
      accumulate_keys(row / sizes_.key_heads, row % sizes_.key_heads, index % key_tiles_,
                      scratch_.of(thread), [](const FlashBackwardHead&, int64_t, int64_t, bool) {});
    });
  }

  void single_pass() {
    const bool in_place = problem_.d_q.dtype == DType::f32 && problem_.d_q.strides[3] == 1 &&
                          padded() == sizes_.head_dim;
    const int64_t key_rows = sizes_.batch * sizes_.key_heads;
    const int64_t floats_per_head =
        in_place ? 0 : divide_up(sizes_.queries, kAccumulatorRows) * kAccumulatorRows * padded();
    const int64_t bytes_per_row =
        std::max<int64_t>(floats_per_head * sizes_.group() * int64_t{sizeof(float)}, 1);
    const int64_t rows_at_once =
        in_place ? key_rows : std::clamp<int64_t>(kAccumulatorBytes / bytes_per_row, 1, key_rows);
    const AlignedFloats accumulators(floats_per_head * sizes_.group() * rows_at_once);
    std::vector<Turn> turns(static_cast<size_t>(rows_at_once * sizes_.group() * query_tiles_));
    for (int64_t row = 0; row < key_rows; row += rows_at_once)
      single_pass_over({row, std::min(row + rows_at_once, key_rows)}, accumulators.data(),
                       floats_per_head, turns);
  }

  // `rows` counts batch x key heads. Without accumulators, dQ is summed in place.
  void single_pass_over(FlashRange rows, float* accumulators, int64_t floats_per_head,
                        std::vector<Turn>& turns) {
    for (size_t i = 0; i < turns.size(); ++i)
      turns[i].reset(visible_[i % static_cast<size_t>(query_tiles_)].begin);
    // Whole heads if they are short and divide evenly among threads: a thread finds in its cache
    // what it reads again, and none waits for another. Otherwise consecutive tasks are tiles of
    // different heads, since those of one head would wait for each other.
    const int64_t count = rows.end - rows.begin;
    const bool whole_heads = key_tiles_ <= kTilesOfShortHead && count % pool_.threads() == 0;
    const int64_t tiles_at_once = whole_heads ? key_tiles_ : 1;
    pool_.for_each(whole_heads ? count : count * key_tiles_, [&](int64_t index, int thread) {
      const int64_t row = rows.begin + index % count;
      float* scratch = scratch_.of(thread);
      int64_t key_tile = index / count * tiles_at_once;
      const auto add_to_d_q = [&](const FlashBackwardHead& at, int64_t head_index, int64_t tile,
                                  bool seen) {
        const int64_t slot = (row - rows.begin) * sizes_.group() + head_index % sizes_.group();
        const FlashRange& visible = visible_[static_cast<size_t>(tile)];
        const FlashRange range = queries(tile);
        const bool in_place = accumulators == nullptr;
        const int64_t stride = in_place ? at.d_q.row_stride : padded();
        float* base =
            in_place ? static_cast<float*>(at.d_q.data) : accumulators + slot * floats_per_head;
        float* sums = base + range.begin * stride;
        Turn& turn = turns[static_cast<size_t>(slot * query_tiles_ + tile)];
        turn.wait_for(key_tile);
        const bool is_first = key_tile == visible.begin;
        if (seen)
          backward_.add_query_gradient(at, keys(key_tile), range, sums, stride, is_first, scratch);
        else if (is_first)
          clear_sums(sums, stride, range.end - range.begin, in_place);
        if (!in_place && key_tile == visible.end - 1)
          backward_.store_rows(sums, stride, nullptr, at.d_q, range, sizes_.head_dim);
        turn.pass();
      };
      for (const int64_t end = key_tile + tiles_at_once; key_tile < end; ++key_tile)
        accumulate_keys(row / sizes_.key_heads, row % sizes_.key_heads, key_tile, scratch,
                        add_to_d_q);
    });
  }

  // The gradients of the operands of the score function. Tiles are those of their sums; one thread
  // does all that is summed over batches or heads, so that the order is fixed.
  void operand_pass() {
    const ScoreTiles& function = *problem_.function;
    function.clear_sums();
    const int64_t tiles = divide_up(sizes_.keys, kScoreTile);
    const int64_t batches_at_once = function.sums_over(0) ? sizes_.batch : 1;
    const int64_t heads_at_once = function.sums_over(1) ? sizes_.heads : 1;
    const int64_t head_groups = sizes_.heads / heads_at_once;
    const int64_t items = sizes_.batch / batches_at_once * head_groups * tiles;
    pool_.for_each(items, [&](int64_t index, int thread) {
      const FlashRange key_range = tile_range(index % tiles, kScoreTile, sizes_.keys);
      const int64_t first_head = index / tiles % head_groups * heads_at_once;
      const int64_t first_batch = index / tiles / head_groups * batches_at_once;
      for (int64_t batch = first_batch; batch < first_batch + batches_at_once; ++batch)
        for (int64_t each = first_head; each < first_head + heads_at_once; ++each)
          add_operands(batch, each, key_range, scratch_.of(thread));
    });
    function.add_up_diagonals(pool_);
  }

  void add_operands(int64_t batch, int64_t index, FlashRange key_range, float* scratch) {
    FlashBackwardHead at = head(batch, index);
    at.function = problem_.function->adding(batch, index);
    backward_.begin_keys(at, key_range, scratch);
    for (int64_t tile = 0; tile < divide_up(sizes_.queries, kScoreTile); ++tile) {
      const FlashRange range = tile_range(tile, kScoreTile, sizes_.queries);
      const FlashRange visible = visible_keys(mask_, range);
      if (visible.begin < key_range.end && key_range.begin < visible.end &&
          is_seen(at.function, {range, key_range, false, kScoreTile}))
        backward_.find_score_gradients(at, key_range, range, scratch);
    }
  }

  int64_t padded() const { return backward_.padded_head_dim(sizes_.head_dim); }

  const FlashBackward& problem_;
  const AttentionSizes sizes_;
  ThreadPool& pool_;
  const bool in_blocks_;
  const FlashBackwardKernels& backward_;
  const FlashMask mask_;
  const FlashTileSizes tile_;
  const int64_t query_tiles_;
  const int64_t key_tiles_;
  const AlignedFloats delta_;
  const AlignedFloats log_sum_exp_;
  const ThreadScratch scratch_;
  const std::vector<float> zeros_;   // one row
  std::vector<FlashRange> visible_;  // by query tile: the key tiles that it sees
};

}  // namespace

void flash_backward(const FlashBackward& problem, const CpuContext& context) {
  Backward(problem, context).run();
}

}  // namespace ridgeline

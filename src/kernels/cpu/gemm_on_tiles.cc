#include "kernels/cpu/gemm_on_tiles.h"

#include <algorithm>

#include "kernels/cpu/packed_scratch.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cuts.h"

namespace ridgeline {
namespace {

constexpr int64_t kStepElements = kTileLines * kTileLines;  // of a panel, per step of the depth
// Steps of a stretch of the depth, and panels of a block on each side: a block of both operands is
// read many times, and takes at most half of an L2 cache of 2 MiB.
constexpr int64_t kMostSteps = 64, kMostPanels = 4;
constexpr int64_t kPackedElements = int64_t{1} << 23;  // of each operand, packed for all threads
// The bound for the right operand with AVX512-BF16: with few rows its panels are read only a few
// times, so the cost of fetching them from farther caches counts.
constexpr int64_t kPackedColumns = int64_t{1} << 18;

thread_local PackedScratch packed_rows, packed_columns, tile_sums;

uint16_t* elements_of(PackedScratch& scratch, int64_t count) {
  return reinterpret_cast<uint16_t*>(scratch.at_least(divide_up(count, 2)));
}

// Rows of the left operand or columns of the right one, as lines along the depth.
struct TileSide {
  const GemmOperand& operand;
  int64_t lines, line_step, depth_step;
  void (*pack_lines)(const TileLines& lines);

  int64_t panels() const { return divide_up(lines, kTileLines); }
  // Whether lines can be read in place: packing would only copy them.
  bool can_stay(int64_t depth) const {
    return depth_step == 1 && lines % kTileLines == 0 && depth % kTileLines == 0 && depth > 0;
  }
  Part lines_of(Part panels) const {
    const int64_t begin = panels.begin * kTileLines;
    return {begin, std::min(panels.size * kTileLines, lines - begin)};
  }
  void pack(Part panels, Part depth, uint16_t* to) const {
    const Part which = lines_of(panels);
    pack_lines({.from = static_cast<const uint16_t*>(operand.data) + which.begin * line_step +
                        depth.begin * depth_step,
                .line_step = line_step,
                .depth_step = depth_step,
                .lines = which.size,
                .depth = depth.size,
                .to = to});
  }
};

// All threads pack a chunk of each operand, then all multiply blocks. Where rows stay in place,
// each thread packs the columns that it multiplies: a line that other cores have read takes long to
// write again.
class ProductOnTiles {
 public:
  ProductOnTiles(const Gemm& product, Isa isa, ThreadPool* pool)
      : product_(product),
        kernels_(matrix_kernels(isa)),
        pool_(pool),
        packed_columns_(isa == Isa::amx ? kPackedElements : kPackedColumns),
        rows_{product.a, product.m, product.a.row_step, product.a.column_step, kernels_.pack_rows},
        columns_{product.b, product.n, product.b.column_step, product.b.row_step,
                 kernels_.pack_columns},
        steps_(std::max<int64_t>(1, divide_up(product.k, kTileLines))),
        stretches_(divide_up(steps_, kMostSteps)),
        rows_in_place_(rows_.can_stay(product.k)) {}

  void run() const {
    const auto chunks = [&](const TileSide& side, int64_t elements) {
      return divide_up(side.panels(), std::max<int64_t>(1, elements / (steps_ * kStepElements)));
    };
    const int64_t column_chunks = chunks(columns_, packed_columns_);
    // Columns are packed anew for each chunk of rows, so rows in place are one chunk, unless
    // columns are several anyway: a chunk of rows then stays in the caches.
    const int64_t row_chunks =
        rows_in_place_ && column_chunks == 1 ? 1 : chunks(rows_, kPackedElements);
    for (int64_t r = 0; r < row_chunks; ++r)
      for (int64_t c = 0; c < column_chunks; ++c) {
        const Part rows = part_of(rows_.panels(), r, row_chunks);
        const Part columns = part_of(columns_.panels(), c, column_chunks);
        const int64_t packed = rows_in_place_ ? 0 : rows.size * steps_ * kStepElements;
        const Packed a{elements_of(packed_rows, packed), rows};
        const Packed b{elements_of(packed_columns, columns.size * steps_ * kStepElements), columns};
        pack(a, c == 0, b);
        multiply(a, b);
      }
  }

 private:
  // Panels of one operand: all of the first stretch of the depth, then all of the next.
  struct Packed {
    uint16_t* data;
    Part panels;
    uint16_t* at(Part steps, int64_t panel) const {
      return data + (steps.begin * panels.size + panel * steps.size) * kStepElements;
    }
  };

  TilePanels row_panels(const Packed& a, Part steps, int64_t panel) const {
    if (!rows_in_place_)
      return {a.at(steps, panel), steps.size * kStepElements, kTileLines, kStepElements};
    const int64_t panel_step = kTileLines * rows_.line_step;
    return {static_cast<const uint16_t*>(rows_.operand.data) +
                (a.panels.begin + panel) * panel_step + steps.begin * kTileLines,
            panel_step, rows_.line_step, kTileLines};
  }

  Part steps_of(int64_t stretch) const { return part_of(steps_, stretch, stretches_); }
  Part depth_of(Part steps) const {
    const int64_t begin = steps.begin * kTileLines;
    return {begin, std::min(steps.size * kTileLines, product_.k - begin)};
  }

  void pack(const Packed& a, bool a_is_new, const Packed& b) const {
    const int64_t a_items = a_is_new && !rows_in_place_ ? a.panels.size : 0;
    for_each_item(pool_, (a_items + b.panels.size) * stretches_, [&](int64_t item) {
      const Part steps = steps_of(item % stretches_);
      const int64_t index = item / stretches_;
      const bool is_row = index < a_items;
      const Packed& to = is_row ? a : b;
      const int64_t panel = is_row ? index : index - a_items;
      (is_row ? rows_ : columns_)
          .pack({to.panels.begin + panel, 1}, depth_of(steps), to.at(steps, panel));
    });
  }

  struct Blocks {
    int64_t rows = 1, columns = 1;
  };

  // Chooses the blocks with the least time for the busiest thread. The time of a block is its pairs
  // of panels plus its panels, which come from farther caches and cost as much as kFetch pairs.
  Blocks cut(int64_t row_panels, int64_t column_panels) const {
    constexpr int64_t kFetch = 1;
    const int64_t threads = pool_ != nullptr ? pool_->threads() : 1;
    Blocks best;
    int64_t least = INT64_MAX;
    for (int64_t height = 1; height <= std::min(kMostPanels, row_panels); ++height)
      for (int64_t width = 1; width <= std::min(kMostPanels, column_panels); ++width) {
        const Blocks blocks{divide_up(row_panels, height), divide_up(column_panels, width)};
        const int64_t rounds = divide_up(blocks.rows * blocks.columns, threads);
        const int64_t time = rounds * (height * width + kFetch * (height + width));
        if (time < least) least = time, best = blocks;
      }
    return best;
  }

  void multiply(const Packed& a, const Packed& b) const {
    const Blocks blocks = cut(a.panels.size, b.panels.size);
    const int64_t size = info(product_.c.dtype).size;
    for_each_item(pool_, blocks.rows * blocks.columns, [&](int64_t item) {
      const Part rows = part_of(a.panels.size, item % blocks.rows, blocks.rows);
      const Part columns = part_of(b.panels.size, item / blocks.rows, blocks.columns);
      const Part to_rows = rows_.lines_of({a.panels.begin + rows.begin, rows.size});
      const Part to_columns = columns_.lines_of({b.panels.begin + columns.begin, columns.size});
      float* sums = tile_sums.at_least(rows.size * columns.size * kStepElements);
      for (int64_t stretch = 0; stretch < stretches_; ++stretch) {
        const Part steps = steps_of(stretch);
        const int64_t offset = to_rows.begin * product_.c.row_step + to_columns.begin;
        kernels_.multiply({.a = row_panels(a, steps, rows.begin),
                           .b = b.at(steps, columns.begin),
                           .a_panels = rows.size,
                           .b_panels = columns.size,
                           .steps = steps.size,
                           .sums = sums,
                           .begins = stretch == 0,
                           .ends = stretch + 1 == stretches_,
                           .c = static_cast<char*>(product_.c.data) + offset * size,
                           .narrow = product_.c.dtype == DType::bf16,
                           .c_step = product_.c.row_step,
                           .rows = to_rows.size,
                           .columns = to_columns.size});
      }
    });
  }

  const Gemm& product_;
  const MatrixKernels& kernels_;
  ThreadPool* pool_;  // null: the calling thread alone
  const int64_t packed_columns_;
  const TileSide rows_, columns_;
  const int64_t steps_, stretches_;
  const bool rows_in_place_;
};

}  // namespace

bool fits_tiles(const Gemm& product, Isa isa) {
  const DType to = product.c.dtype;
  return isa >= Isa::avx512_bf16 && product.a.dtype == DType::bf16 &&
         product.b.dtype == DType::bf16 && (to == DType::bf16 || to == DType::f32);
}

void gemm_on_tiles(const Gemm& product, Isa isa, ThreadPool* pool) {
  ProductOnTiles(product, isa, pool).run();
}

void for_each_item(ThreadPool* pool, int64_t count, const std::function<void(int64_t item)>& task) {
  if (pool != nullptr) return pool->for_each_nearby(count, [&](int64_t item, int) { task(item); });
  for (int64_t item = 0; item < count; ++item) task(item);
}

}  // namespace ridgeline

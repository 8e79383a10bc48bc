#include "kernels/cpu/gemm.h"

#include <unistd.h>

#include <algorithm>

#include "kernels/cpu/chunk.h"
#include "kernels/cpu/gemm_few_rows.h"
#include "kernels/cpu/gemm_on_tiles.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/packed_scratch.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cuts.h"

namespace ridgeline {
namespace {

// Large: each block of the depth reads and writes all sums of the result once more.
constexpr int64_t kMostDepth = 1024;
constexpr int64_t kSharedFloats = int64_t{1} << 22;  // packed for all tasks of a phase
constexpr int64_t kNarrowSums = int64_t{1} << 20;    // of a result that is not fp32
constexpr int64_t kTasksPerThread = 4;               // so that a late thread can be helped
constexpr int64_t kPanelsToPack = 4;                 // of the shared operand, per task

// Lines that a task packs, and columns that all panels of rows are multiplied by in turn. They are
// read many times, so they take at most half of the L2 cache.
int64_t lines_at_once() {
  constexpr int64_t kMost = 256, kUnknownCache = int64_t{1} << 20;
  static const int64_t lines = [] {
    const int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return (cache > 0 ? cache : kUnknownCache) / 2 / (kMostDepth * int64_t{sizeof(float)});
  }();
  return std::min(kMost, lines);
}

thread_local PackedScratch shared_scratch, own_scratch, widened_scratch, sums_scratch;

// Rows of the left operand or columns of the right one: lines along the depth, packed in panels.
struct Side {
  const GemmPacking& packing;
  const GemmOperand& operand;
  int64_t lines, line_step, depth_step;

  int64_t panels() const { return divide_up(lines, packing.lines); }
  int64_t packed_size(int64_t panels, int64_t depth) const { return panels * packing.step * depth; }

  void pack(const SimdKernels& simd, Part panels, Part depth, float* to) const {
    const int64_t first = panels.begin * packing.lines;
    const int64_t count = std::min(panels.size * packing.lines, lines - first);
    const int64_t offset = first * line_step + depth.begin * depth_step;
    if (operand.dtype == DType::f32 && (depth_step == 1 || line_step == 1)) {
      const bool is_long = depth_step == 1;
      const auto pack_lines = is_long ? packing.long_lines : packing.wide_lines;
      return pack_lines({.from = static_cast<const float*>(operand.data) + offset,
                         .step = is_long ? line_step : depth_step,
                         .lines = count,
                         .depth = depth.size,
                         .to = to});
    }
    for (int64_t line = 0; line < count; line += packing.lines, to += packed_size(1, depth.size))
      pack_widened(simd, offset + line * line_step, std::min(packing.lines, count - line),
                   depth.size, to);
  }

 private:
  // Packs one panel of 16-bit or scattered elements, widened to contiguous fp32 first.
  void pack_widened(const SimdKernels& simd, int64_t offset, int64_t count, int64_t depth,
                    float* to) const {
    float* widened = widened_scratch.at_least(count * depth);
    const auto load = [&](int64_t from, int64_t step, float* values, int64_t number) {
      widen_row(simd, operand.dtype, operand.data, from, step, number, values);
    };
    if (line_step == 1 && depth_step != 1) {
      for (int64_t k = 0; k < depth; ++k)
        load(offset + k * depth_step, 1, widened + k * count, count);
      return packing.wide_lines(
          {.from = widened, .step = count, .lines = count, .depth = depth, .to = to});
    }
    for (int64_t line = 0; line < count; ++line)
      load(offset + line * line_step, depth_step, widened + line * depth, depth);
    return packing.long_lines(
        {.from = widened, .step = depth, .lines = count, .depth = depth, .to = to});
  }
};

// The operand with fewer lines is packed once for all tasks (shared), in phases that fit a cache;
// the lines of the other are divided among the tasks, which pack them (own).
class Multiplication {
 public:
  Multiplication(const Gemm& product, const GemmKernels& kernels, const SimdKernels& simd,
                 ThreadPool* pool)
      : product_(product),
        kernels_(kernels),
        simd_(simd),
        pool_(pool),
        rows_{.packing = kernels.rows,
              .operand = product.a,
              .lines = product.m,
              .line_step = product.a.row_step,
              .depth_step = product.a.column_step},
        columns_{.packing = kernels.columns,
                 .operand = product.b,
                 .lines = product.n,
                 .line_step = product.b.column_step,
                 .depth_step = product.b.row_step},
        shares_rows_(product.m <= product.n),
        shared_(shares_rows_ ? rows_ : columns_),
        own_(shares_rows_ ? columns_ : rows_),
        depths_(std::max<int64_t>(1, divide_up(product.k, kMostDepth))),
        depth_(std::max<int64_t>(1, divide_up(product.k, depths_))) {}

  void run() {
    const bool narrow = product_.c.dtype != DType::f32;
    const int64_t most = std::max<int64_t>(1, kSharedFloats / shared_.packed_size(1, depth_));
    const int64_t blocks = divide_up(shared_.panels(), most);
    for (int64_t block = 0; block < blocks; ++block) {
      const Part shared = part_of(shared_.panels(), block, blocks);
      // The sums of a 16-bit result are kept in fp32 until the last phase, one block at a time.
      const int64_t sums_of_panel = shared.size * shared_.packing.lines * own_.packing.lines;
      const int64_t own_blocks =
          narrow ? divide_up(own_.panels(), std::max<int64_t>(1, kNarrowSums / sums_of_panel)) : 1;
      for (int64_t own_block = 0; own_block < own_blocks; ++own_block) {
        const Part own = part_of(own_.panels(), own_block, own_blocks);
        const Result result = narrow ? sums_of(shared, own) : whole_result();
        multiply(shared, own, result);
        if (narrow) store(result);
      }
    }
  }

 private:
  // The part of the result at (row, column), as fp32.
  struct Result {
    float* data;
    int64_t step;
    int64_t row, column, rows, columns;
  };

  Result whole_result() const {
    return {
        static_cast<float*>(product_.c.data), product_.c.row_step, 0, 0, product_.m, product_.n};
  }

  Result sums_of(Part shared, Part own) const {
    const auto lines = [](const Side& side, Part panels) {
      const int64_t begin = panels.begin * side.packing.lines;
      return Part{begin, std::min(panels.size * side.packing.lines, side.lines - begin)};
    };
    const Part rows = lines(rows_, shares_rows_ ? shared : own);
    const Part columns = lines(columns_, shares_rows_ ? own : shared);
    return {sums_scratch.at_least(rows.size * columns.size),
            columns.size,
            rows.begin,
            columns.begin,
            rows.size,
            columns.size};
  }

  void store(const Result& result) const {
    const GemmResult& c = product_.c;
    for_each_item(pool_, result.rows, [&](int64_t row) {
      const int64_t to = (result.row + row) * c.row_step + result.column;
      simd_.store(c.dtype, result.data + row * result.step,
                  static_cast<char*>(c.data) + to * info(c.dtype).size, result.columns);
    });
  }

  Part depth_part(int64_t which) const { return part_of(product_.k, which, depths_); }

  // The number of parts into which the panels of a block are divided. Shared panels are divided
  // only if own ones are too few for all threads, since each part packs those again.
  struct Cuts {
    int64_t own, shared = 1;
  };
  Cuts cut(Part shared, Part own) const {
    const int64_t least =
        divide_up(own.size, std::max<int64_t>(1, lines_at_once() / own_.packing.lines));
    if (pool_ == nullptr) return {.own = least};
    const int64_t threads = pool_->threads(), wanted = kTasksPerThread * threads;
    if (own.size < wanted)
      return {.own = own.size, .shared = std::min(shared.size, divide_up(wanted, own.size))};
    return {.own = std::min(own.size, divide_up(std::max(least, wanted), threads) * threads)};
  }

  // Multiplies all depths of a block of the result, as many per phase as the shared memory holds.
  void multiply(Part shared, Part own, const Result& result) const {
    const int64_t at_once =
        std::clamp<int64_t>(kSharedFloats / shared_.packed_size(shared.size, depth_), 1, depths_);
    float* packed = shared_scratch.at_least(shared_.packed_size(shared.size, depth_) * at_once);
    const Cuts cuts = cut(shared, own);
    for (int64_t first = 0; first < depths_; first += at_once) {
      const int64_t last = std::min(depths_, first + at_once);
      const auto at = [&](Part depth) {
        const int64_t begin = depth_part(first).begin;
        return packed + shared_.packed_size(shared.size, depth.begin - begin);
      };
      const int64_t bunches = divide_up(shared.size, kPanelsToPack);
      for_each_item(pool_, bunches * (last - first), [&](int64_t item) {
        const Part depth = depth_part(first + item / bunches);
        const Part panels = part_of(shared.size, item % bunches, bunches);
        shared_.pack(simd_, {shared.begin + panels.begin, panels.size}, depth,
                     at(depth) + shared_.packed_size(panels.begin, depth.size));
      });
      for_each_item(pool_, cuts.own * cuts.shared, [&](int64_t item) {
        const Part mine = part_of(own.size, item / cuts.shared, cuts.own);
        const Part others = part_of(shared.size, item % cuts.shared, cuts.shared);
        float* packed_here = own_scratch.at_least(own_.packed_size(mine.size, depth_));
        for (int64_t which = first; which < last; ++which) {
          const Part depth = depth_part(which);
          own_.pack(simd_, {own.begin + mine.begin, mine.size}, depth, packed_here);
          const Panels own_panels{packed_here, {own.begin + mine.begin, mine.size}};
          const Panels shared_panels{at(depth) + shared_.packed_size(others.begin, depth.size),
                                     {shared.begin + others.begin, others.size}};
          multiply_panels(shares_rows_ ? shared_panels : own_panels,
                          shares_rows_ ? own_panels : shared_panels, depth, result);
        }
      });
    }
  }

  struct Panels {
    const float* packed;
    Part which;
  };
  void multiply_panels(const Panels& a, const Panels& b, Part depth, const Result& result) const {
    const int64_t height = rows_.packing.lines, width = columns_.packing.lines;
    const int64_t at_once = std::max<int64_t>(1, lines_at_once() / width);
    for (int64_t begin = 0; begin < b.which.size; begin += at_once)
      for (int64_t i = 0; i < a.which.size; ++i)
        for (int64_t j = begin; j < std::min(begin + at_once, b.which.size); ++j) {
          const int64_t row = (a.which.begin + i) * height, column = (b.which.begin + j) * width;
          kernels_.tile(
              {.a = a.packed + rows_.packed_size(i, depth.size),
               .b = b.packed + columns_.packed_size(j, depth.size),
               .depth = depth.size,
               .c = result.data + (row - result.row) * result.step + column - result.column,
               .c_step = result.step,
               .rows = std::min(height, product_.m - row),
               .columns = std::min(width, product_.n - column),
               .accumulate = depth.begin > 0});
        }
  }

  const Gemm& product_;
  const GemmKernels& kernels_;
  const SimdKernels& simd_;
  ThreadPool* pool_;  // null: the calling thread alone
  const Side rows_, columns_;
  const bool shares_rows_;
  const Side& shared_;
  const Side& own_;
  const int64_t depths_, depth_;  // blocks of the depth, and the size of the largest
};

void run(const Gemm& product, Isa isa, ThreadPool* pool) {
  if (product.c.dtype == DType::tf32) throw no_tf32();
  if (product.m == 0 || product.n == 0) return;
  if (has_few_rows(product)) return gemm_few_rows(product, isa, pool);
  if (fits_tiles(product, isa)) return gemm_on_tiles(product, isa, pool);
  Multiplication(product, gemm_kernels(isa), simd_kernels(isa), pool).run();
}

}  // namespace

void gemm(const Gemm& product, const CpuContext& context) {
  // With fewer multiply-adds one thread is done before the others are awake.
  constexpr int64_t kWorthSharing = int64_t{1} << 23;
  const bool is_small = product.m * product.n * product.k < kWorthSharing && !has_few_rows(product);
  const bool alone = context.pool.threads() == 1 || is_small;
  run(product, context.isa, alone ? nullptr : &context.pool);
}

void gemm_alone(const Gemm& product, Isa isa) {
  run(product, isa, nullptr);
}

}  // namespace ridgeline

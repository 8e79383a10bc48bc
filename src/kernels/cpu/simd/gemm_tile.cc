// One register tile of a matrix product, the packing of its operands, and the dot product of rows.
#include <utility>

#include "hwy/cache_control.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd/vectors.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int kVectors = 2;  // of columns of a tile
// Sums, two vectors of b and one of a: 31 of the 32 registers of AVX-512, 15 of 16 elsewhere.
constexpr int kRows = kLanes == 16 ? 14 : 6;
constexpr int64_t kColumns = kVectors * kLanes;

// Each step of the depth begins on a vector.
template <int64_t kPanel>
inline constexpr int64_t kStep = round_up(kPanel, kLanes);

// Steps of the depth that are prefetched: panels come from the L2 cache.
constexpr int64_t kAhead = 8;

template <int kUsedRows, int kUsedVectors>
void tile_of(const GemmTile& tile) {
  const Wide wide;
  const float* HWY_RESTRICT a = tile.a;
  const float* HWY_RESTRICT b = tile.b;
  Floats sums[kUsedRows][kUsedVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kUsedRows; ++row)
#pragma GCC unroll 4
    for (int v = 0; v < kUsedVectors; ++v) sums[row][v] = hn::Zero(wide);
  const auto add_products = [&](int64_t steps) {
    for (int64_t k = 0; k < steps; ++k, a += kStep<kRows>, b += kColumns) {
      Floats right[kUsedVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kUsedVectors; ++v) {
        right[v] = hn::LoadU(wide, b + v * kLanes);
        hwy::Prefetch(b + kAhead * kColumns + v * kLanes);
      }
      hwy::Prefetch(a + kAhead * kStep<kRows>);
#pragma GCC unroll 16
      for (int row = 0; row < kUsedRows; ++row) {
        const Floats left = hn::Set(wide, a[row]);
#pragma GCC unroll 4
        for (int v = 0; v < kUsedVectors; ++v)
          sums[row][v] = hn::MulAdd(left, right[v], sums[row][v]);
      }
    }
  };
  // Sums in memory are prefetched a row at a time: all at once would delay the panels.
  const int64_t steps = tile.depth / kUsedRows;
#pragma GCC unroll 1
  for (int row = 0; row < kUsedRows; ++row) {
    for (int v = 0; v < kUsedVectors; ++v) hwy::Prefetch(tile.c + row * tile.c_step + v * kLanes);
    add_products(steps);
  }
  add_products(tile.depth - kUsedRows * steps);
  const auto finish = [&](auto load, auto store) {
#pragma GCC unroll 16
    for (int row = 0; row < kUsedRows; ++row)
#pragma GCC unroll 4
      for (int v = 0; v < kUsedVectors; ++v) {
        float* to = tile.c + row * tile.c_step + v * kLanes;
        const Floats sum = sums[row][v];
        store(tile.accumulate ? hn::Add(load(to, v), sum) : sum, to, v);
      }
  };
  if (tile.columns == kUsedVectors * kLanes)
    return finish([&](const float* from, int) { return hn::LoadU(wide, from); },
                  [&](Floats sum, float* to, int) { hn::StoreU(sum, wide, to); });
  const int64_t last = tile.columns - (kUsedVectors - 1) * kLanes;
  const auto count = [&](int v) { return v + 1 < kUsedVectors ? kLanes : last; };
  finish([&](const float* from, int v) { return load_first(from, count(v)); },
         [&](Floats sum, float* to, int v) { store_first(sum, to, count(v)); });
}

using Tile = void (*)(const GemmTile&);

template <int... kIndex>
constexpr auto tiles_of(std::integer_sequence<int, kIndex...>) {
  struct {
    Tile of[sizeof...(kIndex)];
  } tiles{{tile_of<kIndex / kVectors + 1, kIndex % kVectors + 1>...}};
  return tiles;
}
constexpr auto kTiles = tiles_of(std::make_integer_sequence<int, kRows * kVectors>());

void tile(const GemmTile& call) {
  const int64_t vectors = (call.columns + kLanes - 1) / kLanes;
  kTiles.of[(call.rows - 1) * kVectors + vectors - 1](call);
}

// Lines are adjacent: each step of the depth is copied.
template <int64_t kPanel>
void pack_wide(const GemmLines& lines) {
  const Wide wide;
  for (int64_t k = 0; k < lines.depth; ++k) {
    const float* from = lines.from + k * lines.step;
    float* to = lines.to + k * kStep<kPanel>;
    for (int64_t left = lines.lines; left > 0; left -= kPanel) {
#pragma GCC unroll 4
      for (int64_t i = 0; i < kStep<kPanel>; i += kLanes) {
        if (left - i >= kLanes)
          hn::Store(hn::LoadU(wide, from + i), wide, to + i);
        else if (left > i)
          hn::Store(load_first(from + i, left - i), wide, to + i);
      }
      from += kPanel;
      to += kStep<kPanel> * lines.depth;
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four elements of each of kLanes lines become four vectors, one for each element. Blocks of four
// lines are side by side in a vector and are transposed there, all at once.
template <class Line>
HWY_INLINE void transpose_four(Line line, float* to, int64_t to_step) {
  const Wide wide;
  const hn::Repartition<double, Wide> pairs;
  const auto lane = hn::Iota(wide, 0.0f);
  Floats x[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = hn::LoadDup128(wide, line(i));
#pragma GCC unroll 4
    for (int block = 4; block < kLanes; block += 4)
      x[i] = hn::IfThenElse(hn::Lt(lane, hn::Set(wide, static_cast<float>(block))), x[i],
                            hn::LoadDup128(wide, line(block + i)));
  }
  const auto low = hn::BitCast(pairs, hn::InterleaveLower(wide, x[0], x[1]));
  const auto high = hn::BitCast(pairs, hn::InterleaveUpper(wide, x[0], x[1]));
  const auto low_behind = hn::BitCast(pairs, hn::InterleaveLower(wide, x[2], x[3]));
  const auto high_behind = hn::BitCast(pairs, hn::InterleaveUpper(wide, x[2], x[3]));
  const auto store = [&](auto numbers, int64_t place) {
    hn::Store(hn::BitCast(wide, numbers), wide, to + place * to_step);
  };
  store(hn::InterleaveLower(pairs, low, low_behind), 0);
  store(hn::InterleaveUpper(pairs, low, low_behind), 1);
  store(hn::InterleaveLower(pairs, high, high_behind), 2);
  store(hn::InterleaveUpper(pairs, high, high_behind), 3);
}
#endif

// Lines are contiguous along the depth: transposed, a vector of lines at a time.
template <int64_t kPanel>
void pack_long(const GemmLines& lines) {
  float* panel = lines.to;
  for (int64_t begin = 0; begin < lines.lines;
       begin += kPanel, panel += kStep<kPanel> * lines.depth)
    for (int64_t i = 0; i < kPanel && begin + i < lines.lines; i += kLanes) {
      const float* at[kLanes];
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const int64_t line = begin + i + lane;
        at[lane] = lines.from + (line < lines.lines ? line : lines.lines - 1) * lines.step;
      }
      int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
      for (; k + 4 <= lines.depth; k += 4)
        transpose_four([&](int64_t lane) { return at[lane] + k; }, panel + i + k * kStep<kPanel>,
                       kStep<kPanel>);
#endif
      for (; k < lines.depth; ++k)
        for (int64_t lane = 0; lane < kLanes; ++lane)
          panel[k * kStep<kPanel> + i + lane] = at[lane][k];
    }
}

float dot(const float* x, const float* y, int64_t count) {
  const Wide wide;
  Floats sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      sums[v] = hn::MulAdd(hn::LoadU(wide, x + i + v * kLanes), hn::LoadU(wide, y + i + v * kLanes),
                           sums[v]);
  for (; i < count; i += kLanes) {
    const int64_t left = count - i < kLanes ? count - i : kLanes;
    sums[0] = hn::MulAdd(load_first(x + i, left), load_first(y + i, left), sums[0]);
  }
  return hn::GetLane(
      hn::SumOfLanes(wide, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

}  // namespace

const GemmKernels kGemmKernels = {.rows = {.lines = kRows,
                                           .step = kStep<kRows>,
                                           .long_lines = pack_long<kRows>,
                                           .wide_lines = pack_wide<kRows>},
                                  .columns = {.lines = kColumns,
                                              .step = kStep<kColumns>,
                                              .long_lines = pack_long<kColumns>,
                                              .wide_lines = pack_wide<kColumns>},
                                  .tile = tile,
                                  .dot = dot};

}  // namespace ridgeline::RIDGELINE_ISA

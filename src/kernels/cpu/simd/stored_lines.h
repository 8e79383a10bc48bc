// Products of a few fp32 rows with lines in their storage type, for code that reads every line
// once: caches, and weights with a few tokens.
#pragma once

#include "kernels/cpu/simd/vec_math.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

struct StoredFloat {
  using Stored = float;
  static HWY_INLINE Floats load(const float* from) { return hn::LoadU(Wide(), from); }
};
struct StoredBf16 {
  using Stored = uint16_t;
  static HWY_INLINE Floats load(const uint16_t* from) { return widen_bf16(from); }
};
struct StoredF16 {
  using Stored = uint16_t;
  static HWY_INLINE Floats load(const uint16_t* from) { return widen_f16(from); }
};

HWY_INLINE float lane_sum(Floats x) {
  return hn::GetLane(hn::SumOfLanes(Wide(), x));
}

// Loads less than one vector, with zeros beyond the end of the line.
template <class Format>
HWY_INLINE Floats load_rest(const typename Format::Stored* from, int64_t count) {
  typename Format::Stored padded[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) padded[i] = from[i];
  return Format::load(padded);
}

// Calls use(column, load) for every vector of a line.
template <class Format, class Use>
HWY_INLINE void for_columns(int64_t width, Use use) {
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes)
    use(c, [](const typename Format::Stored* from) { return Format::load(from); });
  if (c < width)
    use(c, [&](const typename Format::Stored* from) { return load_rest<Format>(from, width - c); });
}

template <class Format>
struct StoredLines {
  const typename Format::Stored* data;
  int64_t step;       // between lines
  int64_t ahead = 0;  // prefetch distance beyond the tile, in elements; 0: none
};

// Rows are `pitch` apart, a multiple of whole vectors, with zeros after the width.
struct PaddedRows {
  const float* data;
  int64_t pitch;
};

// sums[r * sums_step + l] = row r times line l. The order of a sum depends only on the width.
template <class Format, int kRows, int kLines>
HWY_INLINE void multiply_tile(PaddedRows rows, StoredLines<Format> lines, int64_t width,
                              float* sums, int64_t sums_step) {
  Floats products[kRows][kLines];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) products[r][l] = hn::Zero(Wide());
  for_columns<Format>(width, [&](int64_t c, auto load) {
    // Prefetches as much as this step reads, in memory order: the hardware prefetcher follows that
    // one stream, while short lines that are read side by side look random to it. It follows a
    // single line without help.
    constexpr int64_t kCacheLine = 64 / sizeof(typename Format::Stored);
    if (kLines > 1 && lines.ahead != 0) {
      const auto* next = lines.data + kLines * (lines.step + c) + lines.ahead;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kLines * kLanes; i += kCacheLine) __builtin_prefetch(next + i);
    }
    Floats line[kLines];
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) line[l] = load(lines.data + l * lines.step + c);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Floats row = hn::LoadU(Wide(), rows.data + r * rows.pitch + c);
#pragma GCC unroll 8
      for (int l = 0; l < kLines; ++l) products[r][l] = hn::MulAdd(row, line[l], products[r][l]);
    }
  });
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) sums[r * sums_step + l] = lane_sum(products[r][l]);
}

}  // namespace
}  // namespace ridgeline::RIDGELINE_ISA

// Products of a few fp32 rows with lines of numbers as they are stored, for code that reads every
// line once: caches, and weights beside a few tokens.
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

// Less than one vector; zeros behind the end of the line.
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
  int64_t step;       // from line to line
  int64_t ahead = 0;  // how far behind the tile to prefetch, in elements; 0: nothing is
};

// Rows are `pitch` apart, which leaves room for whole vectors, with zeros behind the width.
struct PaddedRows {
  const float* data;
  int64_t pitch;
};

// sums[r * sums_step + l] = row r times line l. The order of a sum depends on the width alone.
template <class Format, int kRows, int kLines>
HWY_INLINE void multiply_tile(PaddedRows rows, StoredLines<Format> lines, int64_t width,
                              float* sums, int64_t sums_step) {
  Floats products[kRows][kLines];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int l = 0; l < kLines; ++l) products[r][l] = hn::Zero(Wide());
  for_columns<Format>(width, [&](int64_t c, auto load) {
    // As much as this step reads, in the order of memory: the processor's own prefetcher follows
    // that one stream, where it takes short lines that are read side by side for random places. A
    // single line it follows by itself.
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

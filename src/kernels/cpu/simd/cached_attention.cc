// Attention of a few queries over a run of cached keys and values: each row of both is read once
// and used for all queries.
#include "kernels/cpu/simd/pointwise.h"
#include "kernels/cpu/simd/stored_lines.h"

namespace ridgeline::RIDGELINE_ISA {
namespace {

constexpr int64_t kRunBlock = 32;  // slots whose scores are computed before their values are read
constexpr int kRowTile = 4;        // queries that share what is in registers

// Prefetches a row that is needed soon. Values are fetched while keys are scored, the keys of the
// next block while values are added, so that arithmetic hides the latency of memory.
template <class Format>
HWY_INLINE void prefetch_row(const CachedRun& run, const void* rows, int64_t step, int64_t slot) {
  constexpr int64_t kLine = 64 / sizeof(typename Format::Stored);
  if (slot >= run.slots) return;
  const auto* row = static_cast<const typename Format::Stored*>(rows) + slot * step;
  for (int64_t c = 0; c < run.width; c += kLine) __builtin_prefetch(row + c);
}

// scores[r][k] = query r times key k.
template <class Format, int kRows, int kKeys>
HWY_INLINE void score_tile(const CachedRun& run, const float* queries, int64_t slot,
                           float* scores) {
  const auto* keys = static_cast<const typename Format::Stored*>(run.keys) + slot * run.key_step;
  multiply_tile<Format, kRows, kKeys>({queries, run.pitch}, {keys, run.key_step}, run.width, scores,
                                      kRunBlock);
}

template <class Format, int kRows>
void score_block(const CachedRun& run, const float* queries, int64_t slot, int64_t count,
                 float* scores, bool prefetches) {
  int64_t k = 0;
  for (; k + 2 <= count; k += 2) {
    for (int64_t i = 0; i < 2 && prefetches; ++i)
      prefetch_row<Format>(run, run.values, run.value_step, slot + k + i);
    score_tile<Format, kRows, 2>(run, queries, slot + k, scores + k);
  }
  if (k < count) score_tile<Format, kRows, 1>(run, queries, slot + k, scores + k);
}

// sums[r] += weights[r][k] * value k.
template <class Format, int kRows, int kKeys>
HWY_INLINE void add_tile(const CachedRun& run, float* sums, int64_t slot, const float* weights) {
  const auto* values =
      static_cast<const typename Format::Stored*>(run.values) + slot * run.value_step;
  for_columns<Format>(run.width, [&](int64_t c, auto load) {
    Floats value[kKeys];
#pragma GCC unroll 8
    for (int k = 0; k < kKeys; ++k) value[k] = load(values + k * run.value_step + c);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Floats sum = hn::LoadU(Wide(), sums + r * run.pitch + c);
#pragma GCC unroll 8
      for (int k = 0; k < kKeys; ++k)
        sum = hn::MulAdd(hn::Set(Wide(), weights[r * kRunBlock + k]), value[k], sum);
      hn::StoreU(sum, Wide(), sums + r * run.pitch + c);
    }
  });
}

template <class Format, int kRows>
void add_block(const CachedRun& run, float* sums, int64_t slot, int64_t count, const float* weights,
               bool prefetches) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (int64_t i = 0; i < 4 && prefetches; ++i)
      prefetch_row<Format>(run, run.keys, run.key_step, slot + kRunBlock + k + i);
    add_tile<Format, kRows, 4>(run, sums, slot + k, weights + k);
  }
  for (; k < count; ++k) add_tile<Format, kRows, 1>(run, sums, slot + k, weights + k);
}

// Turns the scores of one row into weights relative to the largest score so far.
void weigh(const CachedRun& run, int64_t row, int64_t slot, float* scores) {
  constexpr float kNothing = -__builtin_inff();
  const int64_t begin = run.first[row] - slot, end = run.last[row] - slot;
  for (int64_t i = 0; i < kRunBlock; ++i)
    if (i < begin || i >= end) scores[i] = kNothing;
  const Wide wide;
  Floats largest = hn::Set(wide, run.largest[row]);
  for (int64_t i = 0; i < kRunBlock; i += kLanes)
    largest = hn::Max(largest, hn::LoadU(wide, scores + i));
  largest = hn::MaxOfLanes(wide, largest);
  const float now = hn::GetLane(largest), before = run.largest[row];
  if (now == kNothing) largest = hn::Zero(wide);  // all weights are 0
  const Floats log2_e = hn::Set(wide, 1.44269504f);
  Floats total = hn::Zero(wide);
  for (int64_t i = 0; i < kRunBlock; i += kLanes) {
    const Floats score = hn::LoadU(wide, scores + i);
    const Floats weight = hn::IfThenZeroElse(hn::Eq(score, hn::Set(wide, kNothing)),
                                             exp2_floats(hn::Mul(hn::Sub(score, largest), log2_e)));
    total = hn::Add(total, weight);
    hn::StoreU(weight, wide, scores + i);
  }
  float rescale = 1;
  if (now != before && before != kNothing)
    rescale = hn::GetLane(exp2_floats(hn::Mul(hn::Set(wide, before - now), log2_e)));
  run.largest[row] = now;
  run.total[row] = run.total[row] * rescale + lane_sum(total);
  if (rescale == 1) return;
  float* sums = run.sums + row * run.pitch;
  for (int64_t c = 0; c < run.width; c += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(wide, sums + c), hn::Set(wide, rescale)), wide, sums + c);
}

template <class Format>
void attend_as(const CachedRun& run) {
  static_assert(kRunBlock % kLanes == 0);
  float scores[kRowTile * kRunBlock];
  for (int64_t slot = 0; slot < run.slots; slot += kRunBlock) {
    const int64_t left = run.slots - slot, count = left < kRunBlock ? left : kRunBlock;
    for (int64_t row = 0; row < run.rows;) {
      const int64_t tile = run.rows - row >= kRowTile ? kRowTile : 1;
      bool sees_any = false;
      for (int64_t r = row; r < row + tile; ++r)
        sees_any = sees_any || (run.first[r] < slot + count && run.last[r] > slot);
      if (sees_any) {
        const float* queries = run.queries + row * run.pitch;
        float* sums = run.sums + row * run.pitch;
        if (tile == kRowTile)
          score_block<Format, kRowTile>(run, queries, slot, count, scores, row == 0);
        else
          score_block<Format, 1>(run, queries, slot, count, scores, row == 0);
        for (int64_t r = 0; r < tile; ++r) weigh(run, row + r, slot, scores + r * kRunBlock);
        if (tile == kRowTile)
          add_block<Format, kRowTile>(run, sums, slot, count, scores, row == 0);
        else
          add_block<Format, 1>(run, sums, slot, count, scores, row == 0);
      }
      row += tile;
    }
  }
}

}  // namespace

void attend(const CachedRun& run) {
  switch (run.dtype) {
    case DType::bf16:
      return attend_as<StoredBf16>(run);
    case DType::f16:
      return attend_as<StoredF16>(run);
    default:
      return attend_as<StoredFloat>(run);
  }
}

}  // namespace ridgeline::RIDGELINE_ISA

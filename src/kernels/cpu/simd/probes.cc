// Loops that reach the processor's peak rates: multiply-adds on registers, matrix units, streams.
#include "hwy/cache_control.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "kernels/cpu/simd/vectors.h"

#if HWY_TARGET <= HWY_AVX3
#include "kernels/cpu/simd/bf16_units.h"
#endif

namespace ridgeline::RIDGELINE_ISA {
namespace {

// Independent sums: units x latency, and a few more.
constexpr int kSums = 12;
constexpr int64_t kSteps = 256;

int64_t multiply_add(int64_t repetitions, float* sink) {
  const Wide wide;
  // Close to 1, so that nothing overflows or becomes subnormal.
  const Floats factor = hn::Set(wide, 0.999999f + 1e-9f * sink[0]);
  const Floats addend = hn::Set(wide, 1e-6f);
  Floats sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = hn::Set(wide, 1.0f + 0.001f * static_cast<float>(i));
  for (int64_t step = 0; step < repetitions * kSteps; ++step)
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], factor, addend);
  Floats total = sums[0];
#pragma GCC unroll 12
  for (int i = 1; i < kSums; ++i) total = hn::Add(total, sums[i]);
  hn::StoreU(total, wide, sink);
  return repetitions * kSteps * kSums * kLanes * 2;
}

constexpr int64_t kLine = 4 * kLanes;  // elements of one step of a stream

void copy(const float* from, float* to, int64_t count) {
  const Wide wide;
  for (int64_t i = 0; i < count; i += kLine)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      hn::Store(hn::Load(wide, from + i + v * kLanes), wide, to + i + v * kLanes);
}

void copy_past_caches(const float* from, float* to, int64_t count) {
  const Wide wide;
  for (int64_t i = 0; i < count; i += kLine)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      hn::Stream(hn::Load(wide, from + i + v * kLanes), wide, to + i + v * kLanes);
  hwy::FlushStream();
}

Floats triad_of(const float* a, const float* b) {
  const Wide wide;
  return hn::MulAdd(hn::Set(wide, 3.0f), hn::Load(wide, b), hn::Load(wide, a));
}

void triad(const float* a, const float* b, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLine)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      hn::Store(triad_of(a + i + v * kLanes, b + i + v * kLanes), Wide(), to + i + v * kLanes);
}

void triad_past_caches(const float* a, const float* b, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLine)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v)
      hn::Stream(triad_of(a + i + v * kLanes, b + i + v * kLanes), Wide(), to + i + v * kLanes);
  hwy::FlushStream();
}

template <bool kAhead>
float read_sum(const float* from, int64_t count) {
  constexpr int64_t kBytesAhead = 2048;
  const Wide wide;
  Floats sums[4] = {hn::Zero(wide), hn::Zero(wide), hn::Zero(wide), hn::Zero(wide)};
  for (int64_t i = 0; i < count; i += kLine)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const float* at = from + i + v * kLanes;
      // A prefetch beyond the end has no effect.
      if (kAhead) hwy::Prefetch(reinterpret_cast<const char*>(at) + kBytesAhead);
      sums[v] = hn::Add(sums[v], hn::Load(wide, at));
    }
  return hn::GetLane(
      hn::SumOfLanes(wide, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

#if HWY_TARGET <= HWY_AVX3
// Enough chains of sums to hide the latency of one.
RIDGELINE_WITH_DOTS int64_t dots(int64_t repetitions, float* sink) {
  constexpr int kChains = 16;
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f80));
  __m512 sums[kChains];
#pragma GCC unroll 16
  for (__m512& sum : sums) {
    sum = _mm512_setzero_ps();
    asm volatile("" : "+v"(sum));  // otherwise the compiler merges the chains
  }
  for (int64_t step = 0; step < repetitions * kSteps; ++step)
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, ones, ones);
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  _mm512_storeu_ps(sink, sums[0]);
  return repetitions * kSteps * kChains * (16 * 2 * 2);
}

// 16 x 16 sums of 32 products each, four at a time.
RIDGELINE_WITH_UNITS int64_t matrix_units(int64_t repetitions) {
  const TileConfig config;
  alignas(64) uint16_t ones[16 * 32];
  for (uint16_t& one : ones) one = 0x3f80;
  memory_is_read(&config);
  memory_is_read(ones);
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  for (int64_t step = 0; step < repetitions * kSteps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return repetitions * kSteps * 4 * (16 * 16 * 32 * 2);
}
#endif

}  // namespace

const ProbeKernels kProbeKernels = {
    .multiply_add = multiply_add,
#if HWY_TARGET <= HWY_AVX3
    .dots = dots,
    .matrix_units = matrix_units,
#else
    .dots = nullptr,
    .matrix_units = nullptr,
#endif
    .copy = copy,
    .copy_past_caches = copy_past_caches,
    .triad = triad,
    .triad_past_caches = triad_past_caches,
    .read = read_sum<false>,
    .read_ahead = read_sum<true>,
};

}  // namespace ridgeline::RIDGELINE_ISA

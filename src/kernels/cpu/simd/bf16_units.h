// Products of 32 x 32 blocks of bf16 with sums in fp32, by one of two units: the matrix units of
// recent Xeons (AMX), or vector dot products of pairs (AVX512-BF16).
//
//   Unit::begin();
//   Unit::multiply({.a = rows, .b = words, .c = sums, .steps = depth / kBlock});
//   Unit::end();
//
// Both units treat subnormal numbers as zeros.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/vectors.h"

// Vector dot products of pairs of bf16, and rounding to bf16.
#define RIDGELINE_WITH_DOTS __attribute__((target("avx512bf16")))
// Of functions that either unit may be inlined into: the compiler emits AMX only for its
// intrinsics.
#define RIDGELINE_WITH_UNITS __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

namespace ridgeline::RIDGELINE_ISA {

inline constexpr int64_t kBlock = 32;  // rows, columns and depth of one step: 2 x 2 tiles of AMX

// Rows of bf16 or of sums, `bytes` apart; `step` bytes lead to the next 32 elements of a row.
struct BlockRows {
  const void* data;
  int64_t bytes;
  int64_t step = 64;
};

// Words of two elements that are adjacent along the depth: 16 rows of 32 words to a step, in two
// halves that are `right` bytes apart, with rows `bytes` apart.
struct BlockWords {
  const void* data;
  int64_t bytes = 128;
  int64_t right = 64;
};
inline constexpr int64_t kStepBytes = 16 * kBlock * 4;  // of words, without gaps

// c[32 x 32] (+)= a[32 x depth] * b[depth x 32].
struct BlockProduct {
  BlockRows a;
  BlockWords b;
  BlockRows c;
  int64_t steps;  // of kBlock along the depth
  bool accumulate = false;
  int64_t rows = kBlock;  // of a; sums of further rows may stay unwritten
};

// Eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Compiler intrinsics for tiles do not declare that they read memory: without this, stores before
// them could be delayed or removed.
inline void memory_is_read(const void* from) {
  __asm__ volatile("" ::"r"(from) : "memory");
}

struct MatrixUnits {
  RIDGELINE_WITH_UNITS static HWY_INLINE void begin() {
    const TileConfig config;
    memory_is_read(&config);
    _tile_loadconfig(&config);
  }
  RIDGELINE_WITH_UNITS static HWY_INLINE void end() { _tile_release(); }

  // The sums take four of the eight tiles.
  RIDGELINE_WITH_UNITS static HWY_INLINE void multiply(const BlockProduct& product) {
    const auto [a_data, a_bytes, a_step] = product.a;
    const auto [b_data, b_bytes, b_right] = product.b;
    const int64_t c_bytes = product.c.bytes;
    const char* a = static_cast<const char*>(a_data);
    const char* b = static_cast<const char*>(b_data);
    char* c = const_cast<char*>(static_cast<const char*>(product.c.data));
    char* c_below = c + 16 * c_bytes;
    memory_is_read(c);
    if (product.accumulate) {
      _tile_loadd(0, c, c_bytes);
      _tile_loadd(1, c + 64, c_bytes);
      _tile_loadd(2, c_below, c_bytes);
      _tile_loadd(3, c_below + 64, c_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t step = 0; step < product.steps; ++step, a += a_step, b += kStepBytes) {
      _tile_loadd(6, b, b_bytes);
      _tile_loadd(4, a, a_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(5, a + 16 * a_bytes, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      _tile_loadd(7, b + b_right, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 64, c_bytes);
    _tile_stored(2, c_below, c_bytes);
    _tile_stored(3, c_below + 64, c_bytes);
    memory_is_read(c);
  }
};

struct DotUnits {
  static void begin() {}
  static void end() {}

  // By vdpbf16ps: a pair of a row, broadcast to a vector, times the pairs of 32 columns. Sixteen
  // chains of sums hide the latency of one.
  RIDGELINE_WITH_DOTS static HWY_INLINE void multiply(const BlockProduct& product) {
    constexpr int64_t kRows = 8;
    const auto [a_data, a_bytes, a_step] = product.a;
    const auto [b_data, b_bytes, b_right] = product.b;
    for (int64_t row = 0; row < product.rows; row += kRows) {
      const char* a = static_cast<const char*>(a_data) + row * a_bytes;
      const char* b = static_cast<const char*>(b_data);
      char* c = const_cast<char*>(static_cast<const char*>(product.c.data)) + row * product.c.bytes;
      const auto sums = [&](int64_t r, int64_t half) {
        return reinterpret_cast<float*>(c + r * product.c.bytes) + half * 16;
      };
      __m512 left[kRows], right[kRows];
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) {
        left[r] = product.accumulate ? _mm512_loadu_ps(sums(r, 0)) : _mm512_setzero_ps();
        right[r] = product.accumulate ? _mm512_loadu_ps(sums(r, 1)) : _mm512_setzero_ps();
      }
      for (int64_t step = 0; step < product.steps; ++step, a += a_step, b += kStepBytes)
        for (int64_t pair = 0; pair < 16; ++pair) {
          const char* words = b + pair * b_bytes;
          const auto b_left = reinterpret_cast<__m512bh>(_mm512_loadu_si512(words));
          const auto b_right_words =
              reinterpret_cast<__m512bh>(_mm512_loadu_si512(words + b_right));
#pragma GCC unroll 8
          for (int64_t r = 0; r < kRows; ++r) {
            int32_t both;
            __builtin_memcpy(&both, a + r * a_bytes + pair * 4, sizeof both);
            const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
            left[r] = _mm512_dpbf16_ps(left[r], x, b_left);
            right[r] = _mm512_dpbf16_ps(right[r], x, b_right_words);
          }
        }
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) {
        _mm512_storeu_ps(sums(r, 0), left[r]);
        _mm512_storeu_ps(sums(r, 1), right[r]);
      }
    }
  }
};

}  // namespace ridgeline::RIDGELINE_ISA

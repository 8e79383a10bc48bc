// Eight tiles of 16 rows of 64 bytes, the shape in which all our code uses the matrix units (AMX).
#pragma once

#include <immintrin.h>

#include <cstdint>

// Dot products of pairs of bf16 in vectors, and their rounding.
#define RIDGELINE_WITH_DOTS __attribute__((target("avx512bf16")))
#define RIDGELINE_WITH_AMX __attribute__((target("amx-tile,amx-bf16,avx512bf16")))

namespace ridgeline::RIDGELINE_ISA {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// The compiler's tile instructions do not say that they read memory: what was stored for them would
// be free to come later, or never.
inline void memory_is_read(const void* from) {
  __asm__ volatile("" ::"r"(from) : "memory");
}

}  // namespace ridgeline::RIDGELINE_ISA

// The configuration of the matrix units (AMX) in all our code: eight tiles of 16 rows of 64 bytes.
#pragma once

#include <immintrin.h>

#include <cstdint>

// Vector dot products of pairs of bf16, and rounding to bf16.
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

// Compiler intrinsics for tiles do not declare that they read memory: without this, stores before
// them could be delayed or removed.
inline void memory_is_read(const void* from) {
  __asm__ volatile("" ::"r"(from) : "memory");
}

}  // namespace ridgeline::RIDGELINE_ISA

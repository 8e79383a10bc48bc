// The vector code of the GEMM lab and of the roofline's probes, per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace ridgeline {

struct GemmKernels {
  // The tile of sums that fits the registers.
  int64_t tile_rows;
  int64_t tile_columns;
  // c (+)= a b for one tile: `a` holds tile_rows numbers for each step of the depth, `b`
  // tile_columns.
  void (*tile)(const float* a, const float* b, int64_t depth, float* c, int64_t c_stride,
               bool accumulate);
  float (*dot)(const float* x, const float* y, int64_t count);
};

// What the processor can do at most, without a problem to solve.
struct ProbeKernels {
  // Multiply-adds on registers alone; gives the FLOPs it did. `sink` keeps the compiler honest.
  int64_t (*multiply_add)(int64_t repetitions, float* sink);
  // The same on the matrix units in bf16; null: this instruction set has none.
  int64_t (*matrix_units)(int64_t repetitions);
  // Ordinary stores, which read a line before they write it unless the processor notices, and
  // stores past the caches. Addresses are multiples of 64 bytes, counts of 64.
  void (*copy)(const float* from, float* to, int64_t count);
  void (*copy_past_caches)(const float* from, float* to, int64_t count);
  void (*triad)(const float* a, const float* b, float* to, int64_t count);  // to = a + 3 b
  void (*triad_past_caches)(const float* a, const float* b, float* to, int64_t count);
};

const GemmKernels& gemm_kernels(Isa isa);
const ProbeKernels& probe_kernels(Isa isa);

namespace portable {
extern const GemmKernels kGemmKernels;
extern const ProbeKernels kProbeKernels;
}  // namespace portable
namespace avx2 {
extern const GemmKernels kGemmKernels;
extern const ProbeKernels kProbeKernels;
}  // namespace avx2
namespace avx512 {
extern const GemmKernels kGemmKernels;
extern const ProbeKernels kProbeKernels;
}  // namespace avx512

}  // namespace ridgeline

// The vector code of matrix products and of the roofline's probes, per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace ridgeline {

// c (+)= a b for at most one tile of sums. For each step of the depth `a` has as many elements as a
// panel of rows and `b` as a panel of columns, even if fewer are used.
struct GemmTile {
  const float* a;
  const float* b;
  int64_t depth;
  float* c;
  int64_t c_step;
  int64_t rows, columns;
  bool accumulate;
};

// Lines of a matrix (rows of the left operand, columns of the right one) to be packed into panels
// of a tile's height or width.
struct GemmLines {
  const float* from;
  int64_t step;  // between lines, or between steps of the depth
  int64_t lines, depth;
  float* to;  // panel by panel; undefined beyond the last line
};

struct GemmPacking {
  int64_t lines;  // of a panel
  int64_t step;   // elements of a panel per step of the depth: the lines and their padding
  void (*long_lines)(const GemmLines& lines);  // lines are contiguous
  void (*wide_lines)(const GemmLines& lines);  // steps of the depth are contiguous
};

struct GemmKernels {
  GemmPacking rows, columns;  // of the register tile of sums
  void (*tile)(const GemmTile& tile);
  float (*dot)(const float* x, const float* y, int64_t count);
};

// Lines of bf16 to be packed for the matrix units, or for vector dot products: panels of kTileLines
// lines, with zeros beyond the last line and the depth. Any strides, in elements.
inline constexpr int64_t kTileLines = 32;  // and elements of the depth per step
struct TileLines {
  const uint16_t* from;
  int64_t line_step, depth_step;
  int64_t lines, depth;
  uint16_t* to;  // panel by panel, and in each step by step
};

// Panels of rows, packed or in place in a matrix that is contiguous along the depth: elements
// between panels, between lines of a panel, and between steps of the depth.
struct TilePanels {
  const uint16_t* data;
  int64_t panel_step, line_step, depth_step;
};

// sums (+)= a b for panels of one stretch of the depth, and where the sums go.
struct TileBlock {
  TilePanels a;
  const uint16_t* b;  // packed
  int64_t a_panels, b_panels, steps;
  // kTileLines x kTileLines for each pair of panels, those of b fastest; only for one panel of a if
  // begins and ends are both set.
  float* sums;
  bool begins, ends;  // the depth: overwrite the sums; round them into the result
  void* c;
  bool narrow;            // the result is bf16 instead of fp32
  int64_t c_step;         // between rows
  int64_t rows, columns;  // of the result, which may end inside the last panels
};

struct MatrixKernels {
  void (*pack_rows)(const TileLines& lines);
  void (*pack_columns)(const TileLines& lines);
  void (*multiply)(const TileBlock& block);
};

// Measure the processor's peak rates.
struct ProbeKernels {
  // Multiply-adds on registers alone; returns the FLOPs. `sink` prevents dead-code elimination.
  int64_t (*multiply_add)(int64_t repetitions, float* sink);
  // The same in bf16 by dot products of pairs, and on the matrix units; null if there are none.
  int64_t (*dots)(int64_t repetitions, float* sink);
  int64_t (*matrix_units)(int64_t repetitions);
  // With ordinary stores, which read a line before they write it unless the processor avoids that,
  // and with non-temporal stores. Addresses are multiples of 64 bytes, counts multiples of 64.
  void (*copy)(const float* from, float* to, int64_t count);
  void (*copy_past_caches)(const float* from, float* to, int64_t count);
  void (*triad)(const float* a, const float* b, float* to, int64_t count);  // to = a + 3 b
  void (*triad_past_caches)(const float* a, const float* b, float* to, int64_t count);
  // Return the sum, so that nothing is written; read_ahead prefetches.
  float (*read)(const float* from, int64_t count);
  float (*read_ahead)(const float* from, int64_t count);
};

const GemmKernels& gemm_kernels(Isa isa);
const ProbeKernels& probe_kernels(Isa isa);
const MatrixKernels& matrix_kernels(Isa isa);  // for `avx512_bf16` and `amx`

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
extern const MatrixKernels kMatrixKernels, kDotKernels;
}  // namespace avx512

}  // namespace ridgeline

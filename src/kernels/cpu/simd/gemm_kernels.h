// The vector code of matrix products and of the roofline's probes, per instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

namespace ridgeline {

// c (+)= a b for at most one tile of sums. For each step of the depth `a` holds row_panel numbers
// and `b` column_panel, also where fewer are used.
struct GemmTile {
  const float* a;
  const float* b;
  int64_t depth;
  float* c;
  int64_t c_step;
  int64_t rows, columns;
  bool accumulate;
};

// Lines of a matrix (rows of the left operand, columns of the right one), to be packed into panels
// of a tile's height or width.
struct GemmLines {
  const float* from;
  int64_t step;  // from line to line, or from one step of the depth to the next
  int64_t lines, depth;
  float* to;  // panel by panel; what lies past the last line is anything
};

struct GemmPacking {
  int64_t lines;  // of a panel
  int64_t step;  // numbers of a panel for each step of the depth: the lines, and some to align them
  void (*long_lines)(const GemmLines& lines);  // the numbers of a line lie side by side
  void (*wide_lines)(const GemmLines& lines);  // those of one step of the depth do
};

struct GemmKernels {
  GemmPacking rows, columns;  // of the tile of sums that fits the registers
  void (*tile)(const GemmTile& tile);
  float (*dot)(const float* x, const float* y, int64_t count);
};

// Lines of bf16 to be packed for the matrix units, or for dot products in vectors: panels of
// kTileLines lines, zeros behind the last one and behind the depth. Steps count elements; any will
// do.
inline constexpr int64_t kTileLines = 32;  // and as many numbers of the depth in one step
struct TileLines {
  const uint16_t* from;
  int64_t line_step, depth_step;
  int64_t lines, depth;
  uint16_t* to;  // panel by panel, in each of them step by step
};

// sums (+)= a b for panels of one stretch of the depth, and what becomes of the sums.
struct TileBlock {
  const uint16_t *a, *b;  // packed
  int64_t a_panels, b_panels, steps;
  // kTileLines x kTileLines numbers of each pair of panels, b's inside; or of one panel of a alone,
  // where they go on to the result at once.
  float* sums;
  bool begins, ends;  // the depth: sums are overwritten; sums are rounded into the result
  void* c;
  bool narrow;            // the result is bf16, not fp32
  int64_t c_step;         // from row to row
  int64_t rows, columns;  // of the result, which ends within the last panels
};

struct MatrixKernels {
  void (*pack_rows)(const TileLines& lines);
  void (*pack_columns)(const TileLines& lines);
  void (*multiply)(const TileBlock& block);
};

// What the processor can do at most, without a problem to solve.
struct ProbeKernels {
  // Multiply-adds on registers alone; gives the FLOPs it did. `sink` keeps the compiler honest.
  int64_t (*multiply_add)(int64_t repetitions, float* sink);
  // The same in bf16 by dot products of pairs, and on the matrix units; null: this instruction set
  // has none.
  int64_t (*dots)(int64_t repetitions, float* sink);
  int64_t (*matrix_units)(int64_t repetitions);
  // Ordinary stores, which read a line before they write it unless the processor notices, and
  // stores past the caches. Addresses are multiples of 64 bytes, counts of 64.
  void (*copy)(const float* from, float* to, int64_t count);
  void (*copy_past_caches)(const float* from, float* to, int64_t count);
  void (*triad)(const float* a, const float* b, float* to, int64_t count);  // to = a + 3 b
  void (*triad_past_caches)(const float* a, const float* b, float* to, int64_t count);
  // The sum, so that nothing is written; the same with lines that are asked for ahead of time.
  float (*read)(const float* from, int64_t count);
  float (*read_ahead)(const float* from, int64_t count);
};

const GemmKernels& gemm_kernels(Isa isa);
const ProbeKernels& probe_kernels(Isa isa);
const MatrixKernels& matrix_kernels(Isa isa);  // of `avx512_bf16` and `amx`

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

// Vector building blocks of the CPU kernels: contiguous fp32 in, contiguous fp32 out.
#pragma once

#include <cstdint>

#include "graph/dtype.h"
#include "graph/op.h"
#include "kernels/cpu/isa.h"

namespace ridgeline {

// Contiguous values, or one value for all elements.
struct PointwiseOperand {
  const float* data = nullptr;
  bool is_scalar = false;
};

// The factors of an AdamW step, for both variants in one form:
//   m = keep_first m + take_first g,  v = keep_second v + take_second g^2,
//   p = (p decay_before - step m / (sqrt(v) root_scale + epsilon)) decay_after.
struct AdamWFactors {
  float gradient_scale;
  float keep_first, take_first, keep_second, take_second;
  float decay_before, decay_after;
  float root_scale, epsilon, step;
};

// Queries of heads that share their keys and values, and a run of adjacent slots of a cache. Rows
// of q and sums are `pitch` apart, a multiple of any vector, with zeros after the width.
struct CachedRun {
  DType dtype;
  const void *keys, *values;  // of the first slot; rows are contiguous
  int64_t key_step, value_step, slots, width, pitch, rows;
  const float* queries;           // scaled
  const int64_t *first, *last;    // by row: the slots [first, last) of the run that it sees
  float *largest, *total, *sums;  // by row, over all runs so far
};

// out[r, l] = row r of x times line l of the weights. Rows are fp32 and `pitch` apart as above;
// lines and results are in `dtype`, and lines are contiguous.
struct FewRows {
  DType dtype;
  const float* x;
  int64_t pitch, rows;
  const void* weights;
  int64_t line_step, lines, width;
  void* out;
  int64_t out_step;
};

struct SimdKernels {
  // out[i] = op(operands[0][i], operands[1][i], ...); booleans are 0 and 1. `out` may alias one.
  void (*pointwise)(Op op, const PointwiseOperand* operands, float* out, int64_t count);
  // A comparison of operands that hold the bits of int32_t.
  void (*compare_integers)(Op op, const PointwiseOperand* operands, float* out, int64_t count);
  // Conversion from storage to fp32 and back; narrowing rounds to nearest even.
  void (*load)(DType dtype, const void* source, float* out, int64_t count);
  void (*store)(DType dtype, const float* source, void* out, int64_t count);

  float (*sum)(const float* x, int64_t count);
  float (*max)(const float* x, int64_t count);
  void (*softmax)(const float* x, float* y, int64_t count);
  void (*softmax_gradient)(const float* y, const float* d_y, float* d_x, int64_t count);
  void (*log_softmax)(const float* x, float* y, int64_t count);
  void (*log_softmax_gradient)(const float* y, const float* d_y, float* d_x, int64_t count);
  void (*attend)(const CachedRun& run);
  void (*multiply_few_rows)(const FewRows& product);
  float (*sum_of_squares)(const float* x, int64_t count);
  // Updates p, m and v in place.
  void (*adamw)(const AdamWFactors& factors, float* p, const float* g, float* m, float* v,
                int64_t count);
};

const SimdKernels& simd_kernels(Isa isa);

namespace portable {
extern const SimdKernels kSimdKernels;
}
namespace avx2 {
extern const SimdKernels kSimdKernels;
}
namespace avx512 {
extern const SimdKernels kSimdKernels;
}

}  // namespace ridgeline

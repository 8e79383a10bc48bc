// Maps a batched product of strided tensors to library calls with leading dimensions and one batch
// stride. Needs no GPU.
#pragma once

#include <vector>

#include "kernels/tensor_view.h"

namespace ridgeline {

// A row-major matrix [rows, columns] inside a tensor, or its transpose.
struct MatmulOperand {
  bool transposed = false;   // columns are contiguous, not rows
  int64_t leading = 0;       // between contiguous rows or columns
  int64_t batch_stride = 0;  // 0: one matrix for the whole batch
  bool operator==(const MatmulOperand&) const = default;
};

// One call: batch products [m, k] x [k, n] -> [m, n], the results contiguous or with a larger
// stride.
struct BatchedGemm {
  DType dtype = DType::f32;      // of a and b
  DType out_dtype = DType::f32;  // the same, or fp32
  int64_t m = 0, n = 0, k = 0, batch = 1;
  MatmulOperand a, b;
  int64_t out_batch_stride = 0;
  bool operator==(const BatchedGemm&) const = default;
};

// The offsets of a call's operands, in elements.
struct GemmOffsets {
  int64_t a = 0, b = 0, out = 0;
};

struct MatmulCalls {
  BatchedGemm gemm;
  std::vector<GemmOffsets> offsets;  // one call each
};

// Whether the library can read the last two axes without a copy.
bool library_can_read(const TensorView& view);

// Both inputs must be readable; `out` is contiguous. Leading axes broadcast.
MatmulCalls matmul_calls(const TensorView& a, const TensorView& b, const TensorView& out);

}  // namespace ridgeline

// How a batched product of strided tensors becomes calls of a library that knows leading dimensions
// and one batch stride. Needs no GPU.
#pragma once

#include <vector>

#include "kernels/tensor_view.h"

namespace ridgeline {

// A row-major matrix [rows, columns] inside a tensor, or its transpose.
struct MatmulOperand {
  bool transposed = false;   // columns are neighbours, not rows' elements
  int64_t leading = 0;       // from one run of neighbours to the next
  int64_t batch_stride = 0;  // 0: all matrices of the batch are this one
  bool operator==(const MatmulOperand&) const = default;
};

// One call: batch products [m, k] x [k, n] -> [m, n], the results one after another or further
// apart.
struct BatchedGemm {
  DType dtype = DType::f32;      // of a and b
  DType out_dtype = DType::f32;  // the same, or fp32
  int64_t m = 0, n = 0, k = 0, batch = 1;
  MatmulOperand a, b;
  int64_t out_batch_stride = 0;
  bool operator==(const BatchedGemm&) const = default;
};

// Where a call finds its operands, in elements.
struct GemmOffsets {
  int64_t a = 0, b = 0, out = 0;
};

struct MatmulCalls {
  BatchedGemm gemm;
  std::vector<GemmOffsets> offsets;  // one call each
};

// Whether the library can read the last two axes as they lie.
bool library_can_read(const TensorView& view);

// Both inputs must be readable; `out` is contiguous. Leading axes broadcast.
MatmulCalls matmul_calls(const TensorView& a, const TensorView& b, const TensorView& out);

}  // namespace ridgeline

// The rungs of the GEMM lab's ladder, from three loops to a library, and what each of them
// multiplies.
#pragma once

#include "kernels/tensor_view.h"

namespace ridgeline {

// out[m, n] = a[m, k] b[k, n], all contiguous and of one dtype, sums in fp32. With n = 1 it is a
// matrix times a vector, and each rung has a separate loop for that.
struct GemmOperands {
  TensorView a, b, out;
};

enum class GemmRung {
  naive,    // a dot product per element, down the columns of b
  tiled,    // tiles that fit the first-level cache, or shared memory and registers
  simd,     // packed panels and a tile of sums in vector registers
  library,  // OpenBLAS or cuBLASLt
};

}  // namespace ridgeline

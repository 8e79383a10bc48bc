// Products of a few rows with a large matrix, as in decoding: bound by the bytes of the matrix.
// Needs clusters of blocks (Hopper).
#pragma once

#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"

namespace ridgeline {

// out[m][n] = sum over k of x[m][k] w[n][k]; strides in elements.
struct FewRowsProduct {
  const void *x = nullptr, *w = nullptr;
  void* out = nullptr;
  int64_t x_stride = 0, w_stride = 0, out_stride = 0;
  int64_t tokens = 0, rows = 0, columns = 0;
  DType dtype = DType::bf16;      // of all three
  bool weights_are_kept = false;  // never written, so they can be read before x is ready
};

FewRowsParams few_rows_params(const FewRowsProduct& product);

// Returns the ways to compute it, for tuning; none if the kernel does not support the product.
std::vector<CudaLaunch> plan_few_rows(const FewRowsProduct& product, const CudaFacts& device);

}  // namespace ridgeline

// Products of a few rows by the many rows of a matrix, as decoding has them: bound by the bytes of
// the matrix. Needs clusters of blocks (Hopper).
#pragma once

#include <string>
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
  bool weights_are_kept = false;  // nobody writes them: they are read before x is there
};

FewRowsParams few_rows_params(const FewRowsProduct& product);

// What generated text does before and behind it (codegen/emit.h).
struct FewRowsText {
  std::string entry, text;
  bool prepares = false;  // rows of x, in shared memory
  bool pairs = false;     // makes one number of rows n and n + rows / 2
  std::vector<void*> memory = {};
  std::vector<int> kept_bytes = {};  // of each: what nobody writes
};

// The ways to do it, of which the fastest has to be found. None: the kernel does not serve it.
std::vector<CudaLaunch> plan_few_rows(const FewRowsProduct& product, const CudaFacts& device);
// With `out` of half the columns where it pairs. None as well where rows of x leave no room, or so
// many blocks would prepare them that a kernel of its own is the lesser cost.
std::vector<CudaLaunch> plan_few_rows(const FewRowsProduct& product, const FewRowsText& text,
                                      const CudaFacts& device);

}  // namespace ridgeline

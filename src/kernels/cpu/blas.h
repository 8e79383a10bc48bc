// The one door to the GEMM library.
#pragma once

#include <cstdint>
#include <string>

namespace ridgeline {

// c = a b + beta c in fp32, row-major, on the calling thread. An operand whose rows are contiguous
// has its leading dimension as row stride; a transposed one has its columns contiguous instead.
struct Sgemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  bool transpose_a = false;
  const float* b = nullptr;
  int64_t ldb = 0;
  bool transpose_b = false;
  float* c = nullptr;
  int64_t ldc = 0;
  float beta = 0;
};

void sgemm(const Sgemm& call);

// y = a x in fp32 on the calling thread; `a` has m rows of n numbers, lda apart.
struct Sgemv {
  int64_t m = 0, n = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

void sgemv(const Sgemv& call);

// To be called before `threads` threads multiply at once. OpenBLAS maps a buffer for each and asks
// for ever where a limit (ulimit -v) refuses, so this maps them while that can still be an error.
// Throws an environment error.
void reserve_blas_buffers(int threads);

// "OpenBLAS 0.3.21, kernels for SkylakeX".
std::string blas_description();

}  // namespace ridgeline

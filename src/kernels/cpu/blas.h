// The only interface to the GEMM library.
#pragma once

#include <cstdint>
#include <string>

namespace ridgeline {

// c = a b + beta c in fp32, row-major, on the calling thread. The leading dimension is the stride
// of contiguous rows, or of contiguous columns if the operand is transposed.
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

// y = a x in fp32 on the calling thread; `a` has m rows of n elements, lda apart.
struct Sgemv {
  int64_t m = 0, n = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* x = nullptr;
  float* y = nullptr;
};

void sgemv(const Sgemv& call);

// Called before `threads` threads multiply at once. OpenBLAS maps a buffer for each and retries
// forever if a limit (ulimit -v) refuses, so this maps them while an error can still be reported.
// Throws an environment error.
void reserve_blas_buffers(int threads);

// "OpenBLAS 0.3.21, kernels for SkylakeX".
std::string blas_description();

}  // namespace ridgeline

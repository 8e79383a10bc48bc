#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

extern "C" {
char* openblas_get_config(void);
char* openblas_get_corename(void);
}

namespace ridgeline {
namespace {

// Runs before OpenBLAS's own initialiser. Our pool provides the threads, so OpenBLAS starts none.
// It would pick its kernels from a list of processor models, and those of 2004 for a model newer
// than itself; what the processor can do is the better guide, and a choice made by the user stands.
__attribute__((constructor(101))) void prepare_openblas() {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512)
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (avx2)
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
}

CBLAS_TRANSPOSE flag(bool transpose) {
  return transpose ? CblasTrans : CblasNoTrans;
}

}  // namespace

void sgemm(const Sgemm& call) {
  cblas_sgemm(CblasRowMajor, flag(call.transpose_a), flag(call.transpose_b),
              static_cast<int>(call.m), static_cast<int>(call.n), static_cast<int>(call.k), 1.0f,
              call.a, static_cast<int>(call.lda), call.b, static_cast<int>(call.ldb), call.beta,
              call.c, static_cast<int>(call.ldc));
}

void sgemv(const Sgemv& call) {
  cblas_sgemv(CblasRowMajor, CblasNoTrans, static_cast<int>(call.m), static_cast<int>(call.n), 1.0f,
              call.a, static_cast<int>(call.lda), call.x, 1, 0.0f, call.y, 1);
}

std::string blas_description() {
  const std::string_view config = openblas_get_config();
  const size_t version_end = config.find(' ', config.find(' ') + 1);
  return fmt::format("{}, kernels for {}", config.substr(0, version_end), openblas_get_corename());
}

}  // namespace ridgeline

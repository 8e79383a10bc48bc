#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/print.h"
#include "base/units.h"

extern "C" {
char* openblas_get_config(void);
char* openblas_get_corename(void);
// The library's own allocator: a freed buffer stays mapped for the next caller.
void* blas_memory_alloc(int);
void blas_memory_free(void*);
}

namespace ridgeline {
namespace {

constexpr Bytes kBuffer = {int64_t{128} << 20};  // of one caller

// Returns the limit of `ulimit -v` or `ulimit -d`, or nullopt if neither is set.
std::optional<Bytes> memory_limit() {
  std::optional<Bytes> tightest;
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit = {};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const Bytes bytes{static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT64_MAX))};
    tightest = std::min(tightest.value_or(bytes), bytes);
  }
  return tightest;
}

bool can_be_mapped(Bytes bytes) {
  const auto size = static_cast<size_t>(bytes.count);
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at != MAP_FAILED && munmap(at, size) == 0;
}

// Newer versions of OpenBLAS allocate a buffer when they are initialised, before main(), and retry
// forever if there is no room. No error can be thrown there, so the process ends here.
void end_without_room() {
  const std::optional<Bytes> limit = memory_limit();
  if (!limit || can_be_mapped(kBuffer)) return;
  say("a memory limit of {} (ulimit -v or -d) leaves no room for the products of any number of "
      "--threads: each needs a buffer of {}\n  next step: raise the limit",
      to_string(*limit), to_string(kBuffer));
  std::_Exit(exit_code(ErrorKind::environment));
}

// Runs before OpenBLAS's own initialiser. Our pool provides the threads, so OpenBLAS starts none.
// For a processor newer than itself OpenBLAS would select kernels of 2004 from its list of models,
// so the kernels are selected by the supported instruction sets, unless the user has chosen some.
__attribute__((constructor(101))) void prepare_openblas() {
  end_without_room();
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

void reserve_blas_buffers(int threads) {
  const std::optional<Bytes> limit = memory_limit();
  if (!limit) return;
  std::vector<void*> buffers;
  for (int thread = 0; thread < threads && can_be_mapped(kBuffer); ++thread)
    buffers.push_back(blas_memory_alloc(0));
  for (void* buffer : buffers) blas_memory_free(buffer);
  if (std::ssize(buffers) == threads) return;
  throw Error(ErrorKind::environment,
              fmt::format("a memory limit of {} (ulimit -v or -d) leaves room for the products of "
                          "{} of {} threads: each needs a buffer of {}",
                          to_string(*limit), buffers.size(), threads, to_string(kBuffer)),
              "raise the limit, or give fewer --threads");
}

std::string blas_description() {
  const std::string_view config = openblas_get_config();
  const size_t version_end = config.find(' ', config.find(' ') + 1);
  return fmt::format("{}, kernels for {}", config.substr(0, version_end), openblas_get_corename());
}

}  // namespace ridgeline

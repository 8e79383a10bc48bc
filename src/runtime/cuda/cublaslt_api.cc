#include "runtime/cuda/cublaslt_api.h"

#include <fmt/format.h>

#include "base/error.h"
#include "jit/cuda_libraries.h"

namespace ridgeline::cublaslt {
namespace {

Api open_library() {
  const CudaLibrary& library = cuda_library("cublasLt");
  if (!library)
    throw Error(ErrorKind::unsupported,
                "matrix products on a GPU need cuBLASLt, which was not found on this machine",
                library.how_to_get);
  Api api;
  if (const std::string missing = load_functions(library, api); !missing.empty())
    throw Error(ErrorKind::unsupported,
                fmt::format("cuBLASLt at {} is too old: it lacks {}", library.path, missing),
                library.how_to_get);
  return api;
}

}  // namespace

const Api& api() {
  static const Api instance = open_library();
  return instance;
}

std::string version() {
  if (!cuda_library("cublasLt")) return {};
  const size_t number = api().cublasLtGetVersion();  // 130002: 13.0.2
  return fmt::format("{}.{}", number / 10000, number / 100 % 100);
}

void check(Status status, const char* what) {
  if (status == kSuccess) return;
  const char* text = api().cublasLtGetStatusString(status);
  throw Error(ErrorKind::environment,
              fmt::format("{} failed: cuBLASLt gave {} ({})", what, status, text ? text : "?"),
              "`ridgeline doctor` lists the versions of driver and libraries");
}

}  // namespace ridgeline::cublaslt

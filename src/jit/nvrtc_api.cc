#include "jit/nvrtc_api.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "jit/cuda_libraries.h"

namespace ridgeline::nvrtc {
namespace {

struct Loaded {
  Api api;
  std::string missing = load_functions(cuda_library("nvrtc"), api);
};

const Loaded& loaded() {
  static const Loaded instance;
  return instance;
}

}  // namespace

const Api* api() {
  return loaded().missing.empty() ? &loaded().api : nullptr;
}

const Api& require_api() {
  if (loaded().missing.empty()) return loaded().api;
  const CudaLibrary& library = cuda_library("nvrtc");
  if (library)
    throw Error(ErrorKind::unsupported,
                fmt::format("NVRTC at {} lacks the function {}", library.path, loaded().missing),
                library.how_to_get);
  throw Error(ErrorKind::unsupported,
              fmt::format("NVRTC, the compiler of CUDA kernels, was not found (tried {})",
                          tried_text(library)),
              library.how_to_get);
}

}  // namespace ridgeline::nvrtc

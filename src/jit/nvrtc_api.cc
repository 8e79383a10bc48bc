#include "jit/nvrtc_api.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "jit/cuda_libraries.h"

namespace ridgeline::nvrtc {
namespace {

struct Loaded {
  Api api;
  bool usable = false;
  std::string missing;  // the first function that the library lacks
};

Loaded load() {
  Loaded loaded;
  const CudaLibrary& library = cuda_library("nvrtc");
  if (!library) return loaded;
#define RIDGELINE_LOAD(name, result, arguments)                                   \
  loaded.api.name = reinterpret_cast<result(*) arguments>(library.symbol(#name)); \
  if (!loaded.api.name && loaded.missing.empty()) loaded.missing = #name;
  RIDGELINE_NVRTC_FUNCTIONS(RIDGELINE_LOAD)
#undef RIDGELINE_LOAD
  loaded.usable = loaded.missing.empty();
  return loaded;
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const Api* api() {
  return loaded().usable ? &loaded().api : nullptr;
}

const Api& require_api() {
  if (loaded().usable) return loaded().api;
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

// Finds NVIDIA's libraries at run time: in the toolkit, on the system, in the pip wheels.
//
//   const CudaLibrary& nvrtc = cuda_library("nvrtc");
//   if (nvrtc) ... nvrtc.symbol("nvrtcVersion");
//
// RIDGELINE_CUDA_LIBRARIES=none finds nothing; RIDGELINE_CUDA_LIBRARIES=DIR looks in DIR only.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

struct CudaLibrary {
  void* handle = nullptr;          // of dlopen; null: not found
  std::string path;                // where it was found
  std::vector<std::string> tried;  // for doctor and error messages
  std::string how_to_get;          // "apt install ...; pip install nvidia-cuda-nvrtc"

  explicit operator bool() const { return handle != nullptr; }
  void* symbol(const char* name) const;  // null: not found
};

// Declares `struct Api` with a pointer for each row of FUNCTIONS(X): X(name, result, arguments).
#define RIDGELINE_API_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
#define RIDGELINE_API_VISIT(name, result, arguments) visit(#name, name);
#define RIDGELINE_API(Api, FUNCTIONS)   \
  struct Api {                          \
    FUNCTIONS(RIDGELINE_API_MEMBER)     \
    template <class Visit>              \
    void visit_functions(Visit visit) { \
      FUNCTIONS(RIDGELINE_API_VISIT)    \
    }                                   \
  }

// Finds the functions of such a struct, and returns the first that the library lacks; empty: none.
template <class Api>
std::string load_functions(const CudaLibrary& library, Api& api) {
  std::string missing;
  api.visit_functions([&]<class Function>(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.symbol(name));
    if (function == nullptr && missing.empty()) missing = name;
  });
  return missing;
}

// A library that Ridgeline can use, for listings.
struct CudaLibraryFacts {
  std::string_view stem;     // "nvrtc"
  std::string_view purpose;  // "compiles the kernels"
};
std::span<const CudaLibraryFacts> cuda_library_list();

// "cuda" (the driver), "nvrtc", "cublasLt", "cupti", "nvidia-ml". Opened once and never closed.
const CudaLibrary& cuda_library(std::string_view stem);

// What the search depends on, so that tests can simulate a machine.
struct CudaSearch {
  std::function<std::string(const char*)> variable;  // of the environment; "" where not set
  std::filesystem::path root = "/";
  bool system_loader = true;  // whether the loader may search for the plain name (ld.so.cache etc.)
  int driver_major = 0;       // newest CUDA that the driver supports; 0: unknown
};

// The search behind cuda_library, uncached.
CudaLibrary find_cuda_library(std::string_view stem, const CudaSearch& search);

// A program of the toolkit ("cuobjdump"): on PATH, in a toolkit, in a wheel. Empty: not found.
std::filesystem::path cuda_tool(std::string_view name);
std::filesystem::path find_cuda_tool(std::string_view name, const CudaSearch& search);

// "a, b, c and 12 more": what was tried, for one line of an error.
std::string tried_text(const CudaLibrary& library);

}  // namespace ridgeline

// The part of NVRTC that Ridgeline uses, declared here so that building needs no toolkit.
// tests/runtime/cuda_headers_test.cc checks it against the real nvrtc.h where available.
#pragma once

#include <cstddef>

#include "jit/cuda_libraries.h"

namespace ridgeline::nvrtc {

using Result = int;  // 0: success
using Program = struct ProgramTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 1;
inline constexpr Result kInvalidOption = 5;
inline constexpr Result kCompilation = 6;

// name in the library, result, arguments
#define RIDGELINE_NVRTC_FUNCTIONS(X)                                                              \
  X(nvrtcVersion, Result, (int* major, int* minor))                                               \
  X(nvrtcGetErrorString, const char*, (Result result))                                            \
  X(nvrtcGetNumSupportedArchs, Result, (int* count))                                              \
  X(nvrtcGetSupportedArchs, Result, (int* archs))                                                 \
  X(nvrtcCreateProgram, Result,                                                                   \
    (Program * program, const char* text, const char* name, int header_count,                     \
     const char* const* header_texts, const char* const* header_names))                           \
  X(nvrtcDestroyProgram, Result, (Program * program))                                             \
  X(nvrtcCompileProgram, Result, (Program program, int option_count, const char* const* options)) \
  X(nvrtcGetProgramLogSize, Result, (Program program, size_t * bytes))                            \
  X(nvrtcGetProgramLog, Result, (Program program, char* log))                                     \
  X(nvrtcGetCUBINSize, Result, (Program program, size_t * bytes))                                 \
  X(nvrtcGetCUBIN, Result, (Program program, char* cubin))                                        \
  X(nvrtcGetPTXSize, Result, (Program program, size_t * bytes))                                   \
  X(nvrtcGetPTX, Result, (Program program, char* ptx))

RIDGELINE_API(Api, RIDGELINE_NVRTC_FUNCTIONS);

// Null: no NVRTC was found, or it lacks a function above.
const Api* api();

// As api(), but throws an unsupported error that says where it searched and how to get it.
const Api& require_api();

}  // namespace ridgeline::nvrtc

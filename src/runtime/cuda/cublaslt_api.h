// The part of cuBLASLt that Ridgeline uses, declared here so that building needs no toolkit.
// tests/runtime/cuda_headers_test.cc checks it against the real cublasLt.h where available.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "jit/cuda_libraries.h"
#include "runtime/cuda/driver_api.h"

namespace ridgeline::cublaslt {

using Status = int;  // 0: success
using Handle = struct HandleTag*;
using MatmulDesc = struct MatmulDescTag*;
using MatrixLayout = struct MatrixLayoutTag*;
using Preference = struct PreferenceTag*;

inline constexpr Status kSuccess = 0;

enum DataType : int { kReal32 = 0, kReal16 = 2, kRealBf16 = 14 };
enum ComputeType : int { kCompute32 = 68, kCompute32FastTf32 = 77 };
enum Transpose : int { kAsIs = 0, kTransposed = 1 };
enum DescAttribute : int {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kMultiprocessors = 15,
};
enum EpilogueBits : int { kNoEpilogue = 1, kRelu = 2, kBias = 4, kGelu = 32 };
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kMaxWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kMinAlignmentA = 5,
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8,
};

// How partial sums of split-K are reduced. The other schemes add up in the output's type.
enum ReductionScheme : int { kReduceInComputeType = 2 };

struct Algorithm {
  uint64_t opaque[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

// name in the library, result, arguments
#define RIDGELINE_CUBLASLT_FUNCTIONS(X)                                                            \
  X(cublasLtGetVersion, size_t, ())                                                                \
  X(cublasLtGetStatusString, const char*, (Status status))                                         \
  X(cublasLtCreate, Status, (Handle * handle))                                                     \
  X(cublasLtDestroy, Status, (Handle handle))                                                      \
  X(cublasLtMatmulDescCreate, Status, (MatmulDesc * desc, ComputeType compute, DataType scale))    \
  X(cublasLtMatmulDescDestroy, Status, (MatmulDesc desc))                                          \
  X(cublasLtMatmulDescSetAttribute, Status,                                                        \
    (MatmulDesc desc, DescAttribute attribute, const void* value, size_t bytes))                   \
  X(cublasLtMatrixLayoutCreate, Status,                                                            \
    (MatrixLayout * layout, DataType type, uint64_t rows, uint64_t columns, int64_t leading))      \
  X(cublasLtMatrixLayoutDestroy, Status, (MatrixLayout layout))                                    \
  X(cublasLtMatrixLayoutSetAttribute, Status,                                                      \
    (MatrixLayout layout, LayoutAttribute attribute, const void* value, size_t bytes))             \
  X(cublasLtMatmulPreferenceCreate, Status, (Preference * preference))                             \
  X(cublasLtMatmulPreferenceDestroy, Status, (Preference preference))                              \
  X(cublasLtMatmulPreferenceSetAttribute, Status,                                                  \
    (Preference preference, PreferenceAttribute attribute, const void* value, size_t bytes))       \
  X(cublasLtMatmulAlgoGetHeuristic, Status,                                                        \
    (Handle handle, MatmulDesc desc, MatrixLayout a, MatrixLayout b, MatrixLayout c,               \
     MatrixLayout d, Preference preference, int wanted, HeuristicResult* results, int* found))     \
  X(cublasLtMatmul, Status,                                                                        \
    (Handle handle, MatmulDesc desc, const void* alpha, const void* a, MatrixLayout layout_a,      \
     const void* b, MatrixLayout layout_b, const void* beta, const void* c, MatrixLayout layout_c, \
     void* d, MatrixLayout layout_d, const Algorithm* algorithm, void* workspace,                  \
     size_t workspace_bytes, cuda::Stream stream))

RIDGELINE_API(Api, RIDGELINE_CUBLASLT_FUNCTIONS);

// Opens the library once. Throws an unsupported error that lists where it searched.
const Api& api();

// "13.0"; empty: no cuBLASLt was found.
std::string version();

// Throws unless `status` is success; `what` describes the operation.
void check(Status status, const char* what);

}  // namespace ridgeline::cublaslt

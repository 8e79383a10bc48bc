// Declares the part of NCCL that Ridgeline uses, so that building needs no toolkit.
// tests/dist/nccl_headers_test.cc compares it with nccl.h where that is installed.
#pragma once

#include <climits>
#include <cstddef>

#include "jit/cuda_libraries.h"

namespace ridgeline::nccl {

using Result = int;  // 0: success
using Comm = struct CommTag*;
using Stream = void*;  // a CUstream
using DataType = int;
using Op = int;

struct UniqueId {
  char bytes[128];
};

// ncclConfig_t of NCCL 2.17; newer versions recognize it by its size.
inline constexpr int kUndefined = INT_MIN;
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21700;
  int blocking = kUndefined, cluster_size = kUndefined;
  int min_blocks = kUndefined, max_blocks = kUndefined;  // of its kernels, one per multiprocessor
  const char* net_name = nullptr;
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kInProgress = 7;
inline constexpr DataType kInt32 = 2, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9;
inline constexpr Op kSum = 0;

// name in the library, result, arguments
#define RIDGELINE_NCCL_FUNCTIONS(X)                                                            \
  X(ncclGetVersion, Result, (int* version))                                                    \
  X(ncclGetErrorString, const char*, (Result result))                                          \
  X(ncclGetUniqueId, Result, (UniqueId * id))                                                  \
  X(ncclCommInitRankConfig, Result,                                                            \
    (Comm * comm, int size, UniqueId id, int rank, Config* config))                            \
  X(ncclCommDestroy, Result, (Comm comm))                                                      \
  X(ncclCommAbort, Result, (Comm comm))                                                        \
  X(ncclCommGetAsyncError, Result, (Comm comm, Result * error))                                \
  X(ncclAllReduce, Result,                                                                     \
    (const void* in, void* out, size_t count, DataType type, Op op, Comm comm, Stream stream)) \
  X(ncclReduceScatter, Result,                                                                 \
    (const void* in, void* out, size_t shard, DataType type, Op op, Comm comm, Stream stream)) \
  X(ncclAllGather, Result,                                                                     \
    (const void* in, void* out, size_t shard, DataType type, Comm comm, Stream stream))        \
  X(ncclGroupStart, Result, ())                                                                \
  X(ncclGroupEnd, Result, ())                                                                  \
  X(ncclReduce, Result,                                                                        \
    (const void* in, void* out, size_t count, DataType type, Op op, int root, Comm comm,       \
     Stream stream))                                                                           \
  X(ncclBroadcast, Result,                                                                     \
    (const void* in, void* out, size_t count, DataType type, int root, Comm comm, Stream stream))

RIDGELINE_API(Api, RIDGELINE_NCCL_FUNCTIONS);

// Opens the library. Throws an unsupported error that lists the paths tried and how to get it.
const Api& require_api();

}  // namespace ridgeline::nccl

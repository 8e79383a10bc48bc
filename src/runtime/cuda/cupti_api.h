// The part of CUPTI that Ridgeline uses, declared here so that building needs no toolkit.
// tests/profile/cupti_headers_test.cc checks it against the real headers where available.
//
// A library fills the newest version of each record that it knows. New fields are only appended, so
// these prefixes work with libcupti.so.12 and .13; do not rely on their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "jit/cuda_libraries.h"

namespace ridgeline::cupti {

using Result = int;  // 0: success
using Context = struct ContextTag*;
using Subscriber = struct SubscriberTag*;
using GraphNode = struct GraphNodeTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;  // also: no more records
inline constexpr Result kInsufficientPrivileges = 35;
inline constexpr Result kMultipleSubscribers = 39;
inline constexpr Result kVirtualizedPrivileges = 40;

enum ActivityKind : int {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kExternalCorrelation = 39,
};
enum ExternalKind : int { kCustom0 = 3 };
enum CallbackDomain : int { kDriverApi = 1, kRuntimeApi = 2, kResource = 3 };
enum ResourceCallback : unsigned { kGraphNodeCreated = 13, kGraphNodeCloned = 20 };
inline constexpr uint32_t kFlushForced = 1;

struct Record {
  ActivityKind kind;
};

struct KernelRecord {
  ActivityKind kind;
  uint8_t cache_config[2];
  uint16_t registers_per_thread;
  int partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total, correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued, submitted;
  uint8_t launch_type, shared_requested, carveout, padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t limit_config, graph;
};

struct MemcpyRecord {
  ActivityKind kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation, runtime_correlation, padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct MemsetRecord {
  ActivityKind kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint16_t flags, memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct ApiRecord {
  ActivityKind kind;
  uint32_t callback;
  uint64_t start, end;
  uint32_t process, thread, correlation, result;
};

struct ExternalCorrelationRecord {
  ActivityKind kind;
  ExternalKind external_kind;
  uint64_t external;
  uint32_t correlation, reserved;
};

struct ResourceData {
  Context context;
  void* handle;
  void* descriptor;
};

struct GraphData {
  void* graph;
  void* original_graph;
  GraphNode node, original_node;
  int node_type;
  GraphNode dependency;
  void* executable;
};

using CallbackFunction = void (*)(void* user, CallbackDomain domain, uint32_t callback,
                                  const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(Context context, uint32_t stream, uint8_t* buffer, size_t size,
                                 size_t valid);

// name in the library, result, arguments
#define RIDGELINE_CUPTI_FUNCTIONS(X)                                                             \
  X(cuptiGetVersion, Result, (uint32_t * version))                                               \
  X(cuptiGetResultString, Result, (Result result, const char** text))                            \
  X(cuptiGetTimestamp, Result, (uint64_t * nanoseconds))                                         \
  X(cuptiSubscribe, Result, (Subscriber * subscriber, CallbackFunction callback, void* user))    \
  X(cuptiUnsubscribe, Result, (Subscriber subscriber))                                           \
  X(cuptiEnableCallback, Result,                                                                 \
    (uint32_t enable, Subscriber subscriber, CallbackDomain domain, uint32_t callback))          \
  X(cuptiGetCallbackName, Result, (CallbackDomain domain, uint32_t callback, const char** name)) \
  X(cuptiGetGraphNodeId, Result, (GraphNode node, uint64_t * id))                                \
  X(cuptiActivityRegisterCallbacks, Result,                                                      \
    (BufferRequested requested, BufferCompleted completed))                                      \
  X(cuptiActivityEnable, Result, (ActivityKind kind))                                            \
  X(cuptiActivityDisable, Result, (ActivityKind kind))                                           \
  X(cuptiActivityFlushAll, Result, (uint32_t flag))                                              \
  X(cuptiActivityGetNextRecord, Result, (uint8_t * buffer, size_t valid, Record * *record))      \
  X(cuptiActivityGetNumDroppedRecords, Result,                                                   \
    (Context context, uint32_t stream, size_t * dropped))                                        \
  X(cuptiActivityPushExternalCorrelationId, Result, (ExternalKind kind, uint64_t id))            \
  X(cuptiActivityPopExternalCorrelationId, Result, (ExternalKind kind, uint64_t * last))

// "tracing by CUPTI gave CUPTI_ERROR_... (35); the driver allows it to administrators only ...".
std::string explain_cupti(Result (*result_string)(Result, const char**), const char* what,
                          Result result);

RIDGELINE_API(Api, RIDGELINE_CUPTI_FUNCTIONS);

// Loads functions of CUPTI. Returns why that failed; empty: success.
template <class Functions>
std::string load_cupti(const CudaLibrary& library, Functions& api) {
  if (!library)
    return "no CUPTI was found (tried " + tried_text(library) + "); " + library.how_to_get;
  const std::string missing = load_functions(library, api);
  return missing.empty() ? "" : "the CUPTI at " + library.path + " is too old: it lacks " + missing;
}

}  // namespace ridgeline::cupti

// Holds our declarations of CUPTI against NVIDIA's own headers, where those are installed: values,
// offsets, and how many arguments each function has.
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

// Ours first: NVIDIA's headers define macros with the names of functions.
#include "runtime/cuda/cupti_api.h"

#if __has_include(<cupti.h>) && __has_include(<cuda.h>)
#include <cuda.h>
#include <cupti.h>

namespace ridgeline::cupti {
namespace {

template <class Ours, class Theirs>
struct Agree : std::false_type {};
template <class... Ours, class TheirResult, class... Theirs>
struct Agree<Result (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return sizeof(Result) == sizeof(TheirResult) &&
             ((sizeof(Ours) == sizeof(Theirs) &&
               std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
    } else {
      return false;
    }
  }();
};
static_assert(!Agree<Result (*)(int), int (*)(int, int)>::value);
static_assert(!Agree<Result (*)(int), int (*)(long)>::value);

#define RIDGELINE_AGREE(name, result, arguments) \
  static_assert(Agree<Result(*) arguments, decltype(&::name)>::value, #name);
RIDGELINE_CUPTI_FUNCTIONS(RIDGELINE_AGREE)

#define RIDGELINE_SAME(ours, theirs) \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs), #theirs);
RIDGELINE_SAME(kSuccess, CUPTI_SUCCESS)
RIDGELINE_SAME(kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED)
RIDGELINE_SAME(kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES)
RIDGELINE_SAME(kMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
RIDGELINE_SAME(kVirtualizedPrivileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES)
RIDGELINE_SAME(kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY)
RIDGELINE_SAME(kMemset, CUPTI_ACTIVITY_KIND_MEMSET)
RIDGELINE_SAME(kDriver, CUPTI_ACTIVITY_KIND_DRIVER)
RIDGELINE_SAME(kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME)
RIDGELINE_SAME(kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
RIDGELINE_SAME(kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)
RIDGELINE_SAME(kCustom0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
RIDGELINE_SAME(kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API)
RIDGELINE_SAME(kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API)
RIDGELINE_SAME(kResource, CUPTI_CB_DOMAIN_RESOURCE)
RIDGELINE_SAME(kGraphNodeCreated, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED)
RIDGELINE_SAME(kGraphNodeCloned, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
RIDGELINE_SAME(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)

// The oldest forms that a library of CUDA 12 or 13 fills; newer ones begin alike.
#define RIDGELINE_AT(ours, our_field, theirs, their_field)                              \
  static_assert(offsetof(ours, our_field) == offsetof(::theirs, their_field) &&         \
                    sizeof(ours::our_field) == sizeof(decltype(::theirs::their_field)), \
                #theirs "." #their_field);
#define RIDGELINE_KERNEL(ours, theirs) \
  RIDGELINE_AT(KernelRecord, ours, CUpti_ActivityKernel9, theirs)
RIDGELINE_KERNEL(kind, kind)
RIDGELINE_KERNEL(registers_per_thread, registersPerThread)
RIDGELINE_KERNEL(start, start)
RIDGELINE_KERNEL(end, end)
RIDGELINE_KERNEL(device, deviceId)
RIDGELINE_KERNEL(context, contextId)
RIDGELINE_KERNEL(stream, streamId)
RIDGELINE_KERNEL(grid_x, gridX)
RIDGELINE_KERNEL(grid_z, gridZ)
RIDGELINE_KERNEL(block_x, blockX)
RIDGELINE_KERNEL(block_z, blockZ)
RIDGELINE_KERNEL(static_shared, staticSharedMemory)
RIDGELINE_KERNEL(dynamic_shared, dynamicSharedMemory)
RIDGELINE_KERNEL(correlation, correlationId)
RIDGELINE_KERNEL(name, name)
RIDGELINE_KERNEL(graph_node, graphNodeId)
RIDGELINE_KERNEL(graph, graphId)
#define RIDGELINE_COPY(ours, theirs) RIDGELINE_AT(MemcpyRecord, ours, CUpti_ActivityMemcpy5, theirs)
RIDGELINE_COPY(copy_kind, copyKind)
RIDGELINE_COPY(bytes, bytes)
RIDGELINE_COPY(start, start)
RIDGELINE_COPY(end, end)
RIDGELINE_COPY(device, deviceId)
RIDGELINE_COPY(stream, streamId)
RIDGELINE_COPY(correlation, correlationId)
RIDGELINE_COPY(graph_node, graphNodeId)
RIDGELINE_COPY(graph, graphId)
#define RIDGELINE_FILL(ours, theirs) RIDGELINE_AT(MemsetRecord, ours, CUpti_ActivityMemset4, theirs)
RIDGELINE_FILL(value, value)
RIDGELINE_FILL(bytes, bytes)
RIDGELINE_FILL(start, start)
RIDGELINE_FILL(end, end)
RIDGELINE_FILL(device, deviceId)
RIDGELINE_FILL(stream, streamId)
RIDGELINE_FILL(correlation, correlationId)
RIDGELINE_FILL(graph_node, graphNodeId)
RIDGELINE_FILL(graph, graphId)
#define RIDGELINE_CALL(ours, theirs) RIDGELINE_AT(ApiRecord, ours, CUpti_ActivityAPI, theirs)
RIDGELINE_CALL(callback, cbid)
RIDGELINE_CALL(start, start)
RIDGELINE_CALL(end, end)
RIDGELINE_CALL(thread, threadId)
RIDGELINE_CALL(correlation, correlationId)
#define RIDGELINE_LINK(ours, theirs) \
  RIDGELINE_AT(ExternalCorrelationRecord, ours, CUpti_ActivityExternalCorrelation, theirs)
RIDGELINE_LINK(external_kind, externalKind)
RIDGELINE_LINK(external, externalId)
RIDGELINE_LINK(correlation, correlationId)
RIDGELINE_AT(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor)
RIDGELINE_AT(GraphData, node, CUpti_GraphData, node)
RIDGELINE_AT(GraphData, original_node, CUpti_GraphData, originalNode)
RIDGELINE_AT(GraphData, node_type, CUpti_GraphData, nodeType)

TEST(CuptiDeclarations, AreNvidias) {}  // the assertions above are made at compile time

}  // namespace
}  // namespace ridgeline::cupti

#else

TEST(CuptiDeclarations, AreNvidias) {
  GTEST_SKIP() << "needs cupti.h and cuda.h when the tests are built";
}

#endif

// A library that stands in for CUPTI: it keeps records of what a test says a GPU did.
//
// FAKE_CUPTI=forbidden: the driver refuses. There is one subscriber at a time.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/cuda/cupti_api.h"

using namespace ridgeline::cupti;

namespace {

constexpr size_t kRecordBytes = 256;

struct AnyRecord {
  alignas(8) unsigned char bytes[kRecordBytes] = {};
};

struct Node {
  uint64_t id = 0;
  std::string name;
};

struct State {
  CallbackFunction callback = nullptr;
  void* user = nullptr;
  bool has_subscriber = false;
  BufferRequested requested = nullptr;
  BufferCompleted completed = nullptr;
  std::vector<AnyRecord> records;
  std::vector<uint64_t> marks;
  std::vector<Node*> captured, executable;
  uint64_t now = 1000, next_node = 77;
  uint32_t next_correlation = 1;
};

State& state() {
  static State instance;
  return instance;
}

bool is_told(const char* word) {
  const char* told = std::getenv("FAKE_CUPTI");
  return told != nullptr && std::strstr(told, word) != nullptr;
}

template <class Record>
void keep(const Record& record) {
  static_assert(sizeof(Record) <= kRecordBytes);
  AnyRecord any;
  std::memcpy(any.bytes, &record, sizeof(Record));
  state().records.push_back(any);
}

// The call that starts something, and its external correlation.
uint32_t call(uint32_t callback) {
  State& all = state();
  const uint32_t correlation = all.next_correlation++;
  ApiRecord api{};
  api.kind = kDriver;
  api.callback = callback;
  api.start = all.now;
  api.end = all.now + 5;
  api.correlation = correlation;
  keep(api);
  if (all.marks.empty()) return correlation;
  ExternalCorrelationRecord link{};
  link.kind = kExternalCorrelation;
  link.external_kind = kCustom0;
  link.external = all.marks.back();
  link.correlation = correlation;
  keep(link);
  return correlation;
}

void kernel(const char* name, uint32_t correlation, uint64_t node) {
  State& all = state();
  KernelRecord record{};
  record.kind = kConcurrentKernel;
  record.start = all.now + 100;
  record.end = all.now + 200;
  record.stream = 13;
  record.correlation = correlation;
  record.name = name;
  record.graph_node = node;
  record.graph = node == 0 ? 0 : 9;
  record.grid_x = 132;
  record.block_x = 256;
  record.registers_per_thread = 64;
  record.dynamic_shared = 1024;
  keep(record);
  all.now += 1000;
}

void tell(ResourceCallback what, Node* node, Node* original) {
  GraphData data{};
  data.node = reinterpret_cast<GraphNode>(node);
  data.original_node = reinterpret_cast<GraphNode>(original);
  ResourceData resource{};
  resource.descriptor = &data;
  state().callback(state().user, kResource, what, &resource);
}

}  // namespace

extern "C" {

Result cuptiGetVersion(uint32_t* version) {
  *version = 130001;
  return kSuccess;
}
Result cuptiGetResultString(Result, const char** text) {
  *text = "CUPTI_ERROR_FAKE";
  return kSuccess;
}
Result cuptiGetTimestamp(uint64_t* now) {
  *now = state().now;
  return kSuccess;
}
Result cuptiSubscribe(Subscriber* subscriber, CallbackFunction callback, void* user) {
  if (state().has_subscriber) return kMultipleSubscribers;
  state().has_subscriber = true;
  state().callback = callback;
  state().user = user;
  *subscriber = reinterpret_cast<Subscriber>(&state());
  return kSuccess;
}
Result cuptiUnsubscribe(Subscriber) {
  state().has_subscriber = false;
  return kSuccess;
}
Result cuptiEnableCallback(uint32_t, Subscriber, CallbackDomain, uint32_t) {
  return kSuccess;
}
Result cuptiGetCallbackName(CallbackDomain, uint32_t callback, const char** name) {
  *name = callback == 1 ? "cuLaunchKernelEx" : "cuGraphLaunch";
  return kSuccess;
}
Result cuptiGetGraphNodeId(GraphNode node, uint64_t* id) {
  *id = reinterpret_cast<Node*>(node)->id;
  return kSuccess;
}
Result cuptiActivityRegisterCallbacks(BufferRequested requested, BufferCompleted completed) {
  state().requested = requested;
  state().completed = completed;
  return kSuccess;
}
Result cuptiActivityEnable(ActivityKind) {
  return is_told("forbidden") ? kInsufficientPrivileges : kSuccess;
}
Result cuptiActivityDisable(ActivityKind) {
  return kSuccess;
}
Result cuptiActivityFlushAll(uint32_t) {
  State& all = state();
  uint8_t* buffer = nullptr;
  size_t size = 0, most = 0;
  all.requested(&buffer, &size, &most);
  const size_t bytes = all.records.size() * kRecordBytes;
  if (bytes > size) std::abort();
  std::memcpy(buffer, all.records.data(), bytes);
  all.records.clear();
  all.completed(nullptr, 0, buffer, size, bytes);
  return kSuccess;
}
Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, Record** record) {
  uint8_t* next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + kRecordBytes;
  if (next >= buffer + valid) return kMaxLimitReached;
  *record = reinterpret_cast<Record*>(next);
  return kSuccess;
}
Result cuptiActivityGetNumDroppedRecords(Context, uint32_t, size_t* dropped) {
  *dropped = 2;
  return kSuccess;
}
Result cuptiActivityPushExternalCorrelationId(ExternalKind, uint64_t id) {
  state().marks.push_back(id);
  return kSuccess;
}
Result cuptiActivityPopExternalCorrelationId(ExternalKind, uint64_t* last) {
  *last = state().marks.back();
  state().marks.pop_back();
  return kSuccess;
}

// ---- what a test says the GPU did

void fake_launch(const char* name) {
  kernel(name, call(1), 0);
}
void fake_launch_without_times(const char* name) {
  kernel(name, call(1), 0);
  reinterpret_cast<KernelRecord*>(state().records.back().bytes)->start = 0;
}
void fake_capture(const char* name) {
  state().captured.push_back(new Node{state().next_node++, name});
  tell(kGraphNodeCreated, state().captured.back(), nullptr);
}
void fake_instantiate() {
  for (Node* node : state().captured) {
    state().executable.push_back(new Node{state().next_node++ | uint64_t{9} << 32, node->name});
    tell(kGraphNodeCloned, state().executable.back(), node);
  }
}
void fake_start_graph() {
  const uint32_t correlation = call(2);
  for (Node* node : state().executable) kernel(node->name.c_str(), correlation, node->id);
}

}  // extern "C"

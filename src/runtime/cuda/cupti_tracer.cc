// Traces GPUs with CUPTI's activity records.
//
// Records of kernels launched one by one have the mark of their call as an external correlation.
// Records of a launch graph only have the id of their node in the executable graph, a clone of the
// captured node. CUPTI reports captures and clones, so a node gets the mark of its original.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "runtime/activity.h"
#include "runtime/cuda/cupti_api.h"

namespace ridgeline {
namespace {

using namespace cupti;

constexpr size_t kBufferBytes = size_t{4} << 20;  // CUPTI asks for 1 to 10 MiB
constexpr size_t kBufferAlignment = 8;
constexpr uint32_t kFirstWithoutDeadlock = 130001;  // cuptiActivityDisable of 13.0 may never return
constexpr uint32_t kFirstOfLongNumbers = 130000;
// Calls of driver and runtime: cuBLASLt launches its kernels through the runtime.
constexpr ActivityKind kKinds[] = {kExternalCorrelation, kDriver, kRuntime, kMemcpy, kMemset,
                                   kConcurrentKernel};

struct Buffer {
  uint8_t* data = nullptr;
  size_t valid = 0;
  Context context = nullptr;
  uint32_t stream = 0;
};

// Global, as CUPTI's buffer callbacks have no user argument. CUPTI must not be called while the
// mutex is held, because it has its own locks.
struct FilledBuffers {
  std::mutex mutex;
  std::vector<Buffer> buffers;
};

FilledBuffers& filled() {
  static FilledBuffers instance;
  return instance;
}

void request_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as fit
}

void complete_buffer(Context context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(filled().mutex);
  filled().buffers.push_back({buffer, valid, context, stream});
}

std::string copy_name(uint8_t kind) {
  static constexpr const char* kNames[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                           "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return fmt::format("Memcpy {}", kind < std::size(kNames) ? kNames[kind] : "");
}

class CuptiTracer : public ActivityTracer {
 public:
  CuptiTracer(const Api& api, uint32_t version) : api_(api), version_(version) {}
  ~CuptiTracer() override {
    stop();
    if (subscriber_ != nullptr) api_.cuptiUnsubscribe(subscriber_);
  }

  // Returns what failed, in a sentence; empty: success.
  std::string start() {
    if (const Result result = api_.cuptiSubscribe(&subscriber_, on_callback, this);
        result != kSuccess) {
      subscriber_ = nullptr;
      if (result == kMultipleSubscribers || result == kMaxLimitReached)
        return "another profiler is attached to this process, and CUPTI serves one at a time";
      return explain("subscribing to CUPTI", result);
    }
    for (const ResourceCallback callback : {kGraphNodeCreated, kGraphNodeCloned})
      if (const Result result = api_.cuptiEnableCallback(1, subscriber_, kResource, callback);
          result != kSuccess)
        return explain("asking CUPTI for the nodes of launch graphs", result);
    if (const Result result = api_.cuptiActivityRegisterCallbacks(request_buffer, complete_buffer);
        result != kSuccess)
      return explain("giving buffers to CUPTI", result);
    is_running_ = true;  // the destructor stops a partial start, too
    for (const ActivityKind kind : kKinds)
      if (const Result result = api_.cuptiActivityEnable(kind); result != kSuccess)
        return explain("tracing by CUPTI", result);
    return {};
  }

  std::string description() const override {
    if (version_ < kFirstOfLongNumbers) return fmt::format("CUPTI, API version {}", version_);
    return fmt::format("CUPTI {}.{}", version_ / 10000, version_ / 100 % 100);
  }

  int64_t now_ns() const override {
    uint64_t now = 0;
    api_.cuptiGetTimestamp(&now);
    return static_cast<int64_t>(now);
  }

  void begin(uint64_t mark) override {
    marks_.push_back(mark);
    api_.cuptiActivityPushExternalCorrelationId(kCustom0, mark);
  }

  void end() override {
    uint64_t last = 0;
    api_.cuptiActivityPopExternalCorrelationId(kCustom0, &last);
    marks_.pop_back();
  }

  Activity take() override {
    api_.cuptiActivityFlushAll(kFlushForced);
    std::vector<Buffer> buffers;
    {
      const std::lock_guard lock(filled().mutex);
      buffers.swap(filled().buffers);
    }
    Activity activity;
    activity.graph_marks = graph_marks_;
    activity.captured = captured_;
    for (const Buffer& buffer : buffers) {
      Record* record = nullptr;
      while (api_.cuptiActivityGetNextRecord(buffer.data, buffer.valid, &record) == kSuccess)
        read(*record, activity);
      size_t dropped = 0;
      api_.cuptiActivityGetNumDroppedRecords(buffer.context, buffer.stream, &dropped);
      activity.dropped += dropped;
      std::free(buffer.data);
    }
    std::ranges::stable_sort(activity.work, {}, &DeviceWork::begin_ns);
    keep_calls_of_work(activity);
    return activity;
  }

  bool stop() override {
    if (!is_running_) return true;
    if (version_ >= kFirstOfLongNumbers && version_ < kFirstWithoutDeadlock) return false;
    for (const ActivityKind kind : kKinds) api_.cuptiActivityDisable(kind);
    is_running_ = false;
    return true;
  }

 private:
  std::string explain(const char* what, Result result) const {
    return explain_cupti(api_.cuptiGetResultString, what, result);
  }

  // Called on the thread that captures and instantiates, which is also the one that sets marks.
  static void on_callback(void* user, CallbackDomain domain, uint32_t callback, const void* data) {
    if (domain != kResource || data == nullptr) return;
    auto& self = *static_cast<CuptiTracer*>(user);
    const auto* node =
        static_cast<const GraphData*>(static_cast<const ResourceData*>(data)->descriptor);
    uint64_t id = 0, original = 0;
    if (node == nullptr || self.api_.cuptiGetGraphNodeId(node->node, &id) != kSuccess) return;
    if (callback == kGraphNodeCreated && !self.marks_.empty()) {
      self.graph_marks_[id] = self.marks_.back();
      ++self.captured_;
    }
    if (callback == kGraphNodeCloned &&
        self.api_.cuptiGetGraphNodeId(node->original_node, &original) == kSuccess)
      if (const auto found = self.graph_marks_.find(original); found != self.graph_marks_.end())
        self.graph_marks_[id] = found->second;
  }

  template <class Timed>
  static DeviceWork work_of(const Timed& record, DeviceWork::Kind kind, std::string name) {
    return {.kind = kind,
            .name = std::move(name),
            .begin_ns = static_cast<int64_t>(record.start),
            .end_ns = static_cast<int64_t>(record.end),
            .device = record.device,
            .context = record.context,
            .stream = record.stream,
            .correlation = record.correlation,
            .graph = record.graph,
            .graph_node = record.graph_node};
  }

  static void add(Activity& activity, DeviceWork work) {
    if (work.begin_ns == 0 || work.end_ns < work.begin_ns)
      ++activity.not_timed;  // CUPTI's buffers on the device were full
    else
      activity.work.push_back(std::move(work));
  }

  void read(const Record& record, Activity& activity) const {
    switch (record.kind) {
      case kConcurrentKernel: {
        const auto& kernel = reinterpret_cast<const KernelRecord&>(record);
        DeviceWork work = work_of(kernel, DeviceWork::Kind::kernel, kernel.name ? kernel.name : "");
        work.grid = {kernel.grid_x, kernel.grid_y, kernel.grid_z};
        work.block = {kernel.block_x, kernel.block_y, kernel.block_z};
        work.registers_per_thread = kernel.registers_per_thread;
        work.shared_bytes = int64_t{kernel.static_shared} + kernel.dynamic_shared;
        return add(activity, std::move(work));
      }
      case kMemcpy: {
        const auto& copy = reinterpret_cast<const MemcpyRecord&>(record);
        DeviceWork work = work_of(copy, DeviceWork::Kind::copy, copy_name(copy.copy_kind));
        work.bytes = static_cast<int64_t>(copy.bytes);
        return add(activity, std::move(work));
      }
      case kMemset: {
        const auto& fill = reinterpret_cast<const MemsetRecord&>(record);
        DeviceWork work = work_of(fill, DeviceWork::Kind::fill, "Memset");
        work.bytes = static_cast<int64_t>(fill.bytes);
        return add(activity, std::move(work));
      }
      case kDriver:
      case kRuntime: {
        const auto& call = reinterpret_cast<const ApiRecord&>(record);
        activity.calls.push_back({.name = {},
                                  .begin_ns = static_cast<int64_t>(call.start),
                                  .end_ns = static_cast<int64_t>(call.end),
                                  .correlation = call.correlation,
                                  .thread = call.thread});
        const char* name = nullptr;
        api_.cuptiGetCallbackName(record.kind == kDriver ? kDriverApi : kRuntimeApi, call.callback,
                                  &name);
        if (name != nullptr) activity.calls.back().name = name;
        return;
      }
      case kExternalCorrelation: {
        const auto& link = reinterpret_cast<const ExternalCorrelationRecord&>(record);
        if (link.external_kind == kCustom0) activity.marks[link.correlation] = link.external;
        return;
      }
    }
  }

  static void keep_calls_of_work(Activity& activity) {
    std::unordered_map<uint32_t, bool> starts;
    for (const DeviceWork& work : activity.work) starts[work.correlation] = true;
    std::erase_if(activity.calls,
                  [&](const LaunchCall& call) { return !starts.contains(call.correlation); });
    std::ranges::stable_sort(activity.calls, {}, &LaunchCall::begin_ns);
  }

  Api api_;
  uint32_t version_;
  Subscriber subscriber_ = nullptr;
  bool is_running_ = false;
  std::vector<uint64_t> marks_;  // of this thread, innermost last
  std::unordered_map<uint64_t, uint64_t> graph_marks_;
  size_t captured_ = 0;
};

}  // namespace

std::string cupti::explain_cupti(Result (*result_string)(Result, const char**), const char* what,
                                 Result result) {
  const char* text = nullptr;
  result_string(result, &text);
  const bool forbidden = result == kInsufficientPrivileges || result == kVirtualizedPrivileges;
  return fmt::format("{} gave {} ({}){}", what, text == nullptr ? "an unknown error" : text, result,
                     forbidden
                         ? "; the driver allows it to administrators only: give the program "
                           "CAP_PERFMON (before driver 565 CAP_SYS_ADMIN), or load the driver "
                           "with NVreg_RestrictProfilingToAdminUsers=0"
                         : "");
}

std::optional<uint64_t> Activity::owner(const DeviceWork& piece) const {
  if (piece.graph_node == 0) return started_under(piece);
  const auto found = graph_marks.find(piece.graph_node);
  return found == graph_marks.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> Activity::started_under(const DeviceWork& piece) const {
  const auto found = marks.find(piece.correlation);
  return found == marks.end() ? std::nullopt : std::optional(found->second);
}

std::unique_ptr<ActivityTracer> open_gpu_activity(const CudaLibrary& library,
                                                  std::string& why_not) {
  Api api;
  why_not = load_cupti(library, api);
  if (!why_not.empty()) return nullptr;
  uint32_t version = 0;
  api.cuptiGetVersion(&version);
  auto tracer = std::make_unique<CuptiTracer>(api, version);
  why_not = tracer->start();
  if (!why_not.empty()) return nullptr;
  return tracer;
}

std::unique_ptr<ActivityTracer> open_gpu_activity(std::string& why_not) {
  if (!cuda_library("cuda")) {
    why_not = "there is no NVIDIA driver";
    return nullptr;
  }
  return open_gpu_activity(cuda_library("cupti"), why_not);
}

}  // namespace ridgeline

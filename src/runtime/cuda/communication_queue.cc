#include "runtime/cuda/communication_queue.h"

#include <cmath>

#include "base/clock.h"

namespace ridgeline {
namespace {

// The driver reports times as single-precision milliseconds since the anchor, which is renewed at
// this age to keep them precise.
constexpr int64_t kAnchorNs = 1'000'000'000;

}  // namespace

class CudaEvent final : public Event {
 public:
  // Other streams wait for `order`; `time` gives the time. Outside of captures both are one event.
  CudaEvent(CudaEvents& events, cuda::Event order, cuda::Event time, EventRef began)
      : events_(events), order_(order), time_(time), began_(std::move(began)) {}
  ~CudaEvent() override {
    if (order_ == time_) events_.release(time_);  // a launch graph keeps its captured events
  }

  void wait() override { events_.wait(time_); }
  bool is_done() const override { return events_.is_done(time_); }
  void* device_event() const override { return order_; }
  std::optional<EventSpan> span() const override {
    const int64_t ended = events_.host_ns(time_);
    const auto before = began_ ? began_->span() : std::nullopt;
    return EventSpan{before ? before->ended_ns : ended, ended};
  }

 private:
  CudaEvents& events_;
  cuda::Event order_, time_;
  EventRef began_;
};

CudaEvents::~CudaEvents() {
  for (cuda::Event event : all_) queue_.driver().cuEventDestroy_v2(event);
}

cuda::Event CudaEvents::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    const cuda::Event event = free_.back();
    free_.pop_back();
    return event;
  }
  return all_.emplace_back(queue_.create_event());
}

void CudaEvents::release(cuda::Event event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

EventRef CudaEvents::record(cuda::Stream stream, const EventRef& began) {
  const cuda::Event order = take();
  cuda::Event time = order;
  if (queue_.capturing()) {
    // Recorded before `order`, so that a stream that waits for `order` joins all captured work, as
    // a capture requires.
    time = take();
    queue_.check(queue_.driver().cuEventRecordWithFlags(time, stream, cuda::kRecordExternal),
                 "recording an event in a launch graph");
  }
  queue_.check(queue_.driver().cuEventRecord(order, stream), "recording an event");
  return std::make_shared<CudaEvent>(*this, order, time, began);
}

void CudaEvents::wait(cuda::Event event) {
  queue_.make_current();
  queue_.check(queue_.driver().cuEventSynchronize(event), "waiting for an event");
}

bool CudaEvents::is_done(cuda::Event event) {
  queue_.make_current();
  const cuda::Result result = queue_.driver().cuEventQuery(event);
  if (result != cuda::kErrorNotReady) queue_.check(result, "asking for an event");
  return result == cuda::kSuccess;
}

int64_t CudaEvents::host_ns(cuda::Event event) {
  wait(event);
  const std::lock_guard lock(mutex_);
  const cuda::Driver& driver = queue_.driver();
  if (anchor_ == nullptr) anchor_ = all_.emplace_back(queue_.create_event());
  if (anchored_ns_ == 0 || monotonic_ns() - anchored_ns_ > kAnchorNs) {
    queue_.check(driver.cuEventRecord(anchor_, queue_.main_stream()), "recording an event");
    queue_.check(driver.cuEventSynchronize(anchor_), "waiting for an event");
    anchored_ns_ = monotonic_ns();
  }
  return anchored_ns_ + std::llround(1e6 * queue_.elapsed_ms(anchor_, event));
}

CudaCommunicationQueue::CudaCommunicationQueue(CudaQueue& queue, CudaEvents& events)
    : queue_(queue), events_(events) {
  // Communication gets the highest priority, as kernels wait for it.
  int least = 0, greatest = 0;
  queue_.make_current();
  queue_.check(queue_.driver().cuCtxGetStreamPriorityRange(&least, &greatest),
               "asking for the priorities of streams");
  queue_.check(
      queue_.driver().cuStreamCreateWithPriority(&stream_, cuda::kStreamNonBlocking, greatest),
      "creating a stream");
}

CudaCommunicationQueue::~CudaCommunicationQueue() {
  if (!queue_.try_make_current()) return;
  queue_.driver().cuStreamSynchronize(stream_);
  queue_.driver().cuStreamDestroy_v2(stream_);
}

void CudaCommunicationQueue::wait_for(Event& event) {
  if (event.device_event() == nullptr) return event.wait();
  queue_.check(
      queue_.driver().cuStreamWaitEvent(stream_, static_cast<cuda::Event>(event.device_event()), 0),
      "ordering two streams");
}

std::shared_ptr<void> CudaCommunicationQueue::host_memory(size_t bytes) {
  void* memory = nullptr;
  queue_.check(queue_.driver().cuMemHostAlloc(&memory, bytes, 0),
               "taking page-locked memory of the host");
  return {memory, [this](void* taken) {
            if (queue_.try_make_current()) queue_.driver().cuMemFreeHost(taken);
          }};
}

void CudaCommunicationQueue::copy_to_host(void* to, const void* from, size_t bytes) {
  queue_.check(queue_.driver().cuMemcpyDtoHAsync_v2(to, reinterpret_cast<cuda::DevicePointer>(from),
                                                    bytes, stream_),
               "copying from the GPU");
}

void CudaCommunicationQueue::copy_from_host(void* to, const void* from, size_t bytes) {
  queue_.check(queue_.driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<cuda::DevicePointer>(to), from,
                                                    bytes, stream_),
               "copying to the GPU");
}

}  // namespace ridgeline

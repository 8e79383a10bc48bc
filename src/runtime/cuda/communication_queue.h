// The stream for collectives, concurrent with a GPU's kernels, and events that report when they
// were reached on the host's clock.
#pragma once

#include <mutex>
#include <vector>

#include "dist/device_queue.h"
#include "runtime/cuda/queue.h"

namespace ridgeline {

// Events on the streams of one device, for any thread. No event outlives its device.
class CudaEvents {
 public:
  explicit CudaEvents(CudaQueue& queue) : queue_(queue) {}
  ~CudaEvents();
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Records an event after all work queued on the stream. During capture, the event is part of the
  // launch graph, and reports the time of the latest replay.
  EventRef record(cuda::Stream stream, const EventRef& began = nullptr);

 private:
  friend class CudaEvent;
  cuda::Event take();
  void release(cuda::Event event);
  void wait(cuda::Event event);
  bool is_done(cuda::Event event);
  int64_t host_ns(cuda::Event event);

  CudaQueue& queue_;
  std::mutex mutex_;
  std::vector<cuda::Event> all_, free_;
  cuda::Event anchor_ = nullptr;  // an event with a known time on the host's clock
  int64_t anchored_ns_ = 0;
};

class CudaCommunicationQueue final : public DeviceQueue {
 public:
  CudaCommunicationQueue(CudaQueue& queue, CudaEvents& events);
  ~CudaCommunicationQueue() override;

  void* stream() const override { return stream_; }
  void make_current() override { queue_.make_current(); }
  void wait_for(Event& event) override;
  EventRef record(const EventRef& began) override { return events_.record(stream_, began); }
  std::shared_ptr<void> host_memory(size_t bytes) override;
  void copy_to_host(void* to, const void* from, size_t bytes) override;
  void copy_from_host(void* to, const void* from, size_t bytes) override;

 private:
  CudaQueue& queue_;
  CudaEvents& events_;
  cuda::Stream stream_ = nullptr;
};

}  // namespace ridgeline

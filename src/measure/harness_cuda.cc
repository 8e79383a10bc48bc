// A GPU's clock for the harness: CUDA events, through the driver that is opened at run time.

#include <memory>

#include "ridgeline/harness.h"
#include "runtime/cuda/driver_api.h"

namespace ridgeline {
namespace {

class EventClock {
 public:
  // Delegates, so that the destructor releases everything if the rest throws.
  explicit EventClock(const CudaClockOptions& options)
      : EventClock(options.device, static_cast<cuda::Stream>(options.stream)) {
    make_current();
    for (cuda::Event& event : events_)
      cuda::check(driver_.cuEventCreate(&event, 0), "creating an event");
    if (!options.cold_cache) return;
    int l2_bytes = 0;
    cuda::check(driver_.cuDeviceGetAttribute(&l2_bytes, cuda::kL2CacheBytes, device_),
                "asking for the size of the L2");
    flush_bytes_ = 2 * static_cast<size_t>(l2_bytes);
    cuda::check(driver_.cuMemAlloc_v2(&flush_, flush_bytes_), "taking a buffer to flush the L2");
  }
  ~EventClock() {
    driver_.cuCtxSetCurrent(context_);
    for (cuda::Event event : events_)
      if (event != nullptr) driver_.cuEventDestroy_v2(event);
    if (flush_ != 0) driver_.cuMemFree_v2(flush_);
    driver_.cuDevicePrimaryCtxRelease_v2(device_);
  }
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  double time_ms(const std::function<void()>& work) {
    make_current();
    if (flush_ != 0)
      cuda::check(driver_.cuMemsetD8Async(flush_, 0, flush_bytes_, stream_), "flushing the L2");
    cuda::check(driver_.cuEventRecord(events_[0], stream_), "recording an event");
    work();
    make_current();
    cuda::check(driver_.cuEventRecord(events_[1], stream_), "recording an event");
    cuda::check(driver_.cuEventSynchronize(events_[1]), "waiting for the GPU");
    float milliseconds = 0;
    cuda::check(driver_.cuEventElapsedTime(&milliseconds, events_[0], events_[1]),
                "reading the time of two events");
    return milliseconds;
  }

 private:
  EventClock(int device, cuda::Stream stream) : driver_(cuda::driver()), stream_(stream) {
    cuda::check(driver_.cuDeviceGet(&device_, device), "opening the GPU");
    cuda::check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "taking the GPU's context");
  }
  void make_current() const {
    cuda::check(driver_.cuCtxSetCurrent(context_), "making the GPU's context current");
  }

  const cuda::Driver& driver_;
  cuda::DeviceHandle device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_;
  cuda::Event events_[2] = {};
  cuda::DevicePointer flush_ = 0;
  size_t flush_bytes_ = 0;
};

}  // namespace

CallClock cuda_clock(const CudaClockOptions& options) {
  return [clock = std::make_shared<EventClock>(options)](const std::function<void()>& work) {
    return clock->time_ms(work);
  };
}

}  // namespace ridgeline

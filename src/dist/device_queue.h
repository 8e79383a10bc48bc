// The interface of a device for communicators over its memory: a stream that runs concurrently with
// its kernels, events of that stream, and copies between device and host.
#pragma once

#include <cstddef>
#include <memory>

#include "dist/communicator.h"

namespace ridgeline {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  virtual void* stream() const = 0;  // a CUstream
  // Makes the device current on the calling thread, which must precede any other call of this class
  // or of a library on the device.
  virtual void make_current() = 0;
  // Work enqueued later runs after the event.
  virtual void wait_for(Event& event) = 0;
  // Records an event after all enqueued work. Its span begins at `began`, an earlier event.
  virtual EventRef record(const EventRef& began) = 0;
  EventRef record() { return record(nullptr); }

  // Page-locked host memory, which copies access without staging by the driver.
  virtual std::shared_ptr<void> host_memory(size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, size_t bytes) = 0;
};

}  // namespace ridgeline

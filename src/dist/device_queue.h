// What a device lends to communicators over its memory: a queue beside its kernels, events of that
// queue, and copies between its memory and the host's.
#pragma once

#include <cstddef>
#include <memory>

#include "dist/communicator.h"

namespace ridgeline {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  virtual void* stream() const = 0;  // a CUstream
  // Before any other call of this class, or of a library on the device, by the calling thread.
  virtual void make_current() = 0;
  // Whatever is queued next comes after the event.
  virtual void wait_for(Event& event) = 0;
  // A moment behind all that is queued. The span of the event begins at `began`, an earlier one.
  virtual EventRef record(const EventRef& began) = 0;
  EventRef record() { return record(nullptr); }

  // Page-locked memory of the host, which copies reach without the driver's help.
  virtual std::shared_ptr<void> host_memory(size_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_from_host(void* to, const void* from, size_t bytes) = 0;
};

}  // namespace ridgeline

// GPU memory directly from the driver; the ledger caches on top of it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/queue.h"
#include "runtime/ledger.h"

namespace ridgeline {

struct CudaMemoryFacts {
  Bytes free, total;
};
CudaMemoryFacts cuda_memory_facts();  // of the current context's GPU

// What is free now, less a margin for kernels, libraries and fragmentation.
Bytes default_cuda_budget();

class CudaMemory : public MemorySource {
 public:
  explicit CudaMemory(CudaQueue& queue) : queue_(queue) {}
  ~CudaMemory() override { free_deferred(); }

  // Throws during capture: memory that the driver allocates then would not exist at replay.
  void* acquire(Bytes bytes, std::string& reason) override;
  // The driver synchronizes before it frees, so no running kernel loses its memory.
  void give_back(void* data, Bytes bytes) override;
  // Frees what was released during a capture.
  void free_deferred();

 private:
  CudaQueue& queue_;
  std::vector<void*> deferred_;
};

// A buffer for internal use of the device, outside the ledger.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaQueue& queue, Bytes bytes, const char* what);

  cuda::DevicePointer address() const { return reinterpret_cast<cuda::DevicePointer>(data()); }
  void* data() const { return data_.get(); }
  Bytes bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_;
  Bytes bytes_;
};

}  // namespace ridgeline

// Memory of a GPU, straight from its driver; the ledger caches on top of it.
#pragma once

#include <utility>
#include <vector>

#include "runtime/cuda/queue.h"
#include "runtime/ledger.h"

namespace ridgeline {

struct CudaMemoryFacts {
  Bytes free, total;
};
CudaMemoryFacts cuda_memory_facts();  // of the current context's GPU

// What is free now, less a margin for kernels, libraries and fragments.
Bytes default_cuda_budget();

class CudaMemory : public MemorySource {
 public:
  explicit CudaMemory(CudaQueue& queue) : queue_(queue) {}
  ~CudaMemory() override { free_deferred(); }

  // Throws while work is captured: what the driver gives out then would not be there at replay.
  void* acquire(Bytes bytes, std::string& reason) override;
  // The driver waits for the GPU before it frees, so that no kernel loses what it works on.
  void give_back(void* data, Bytes bytes) override;
  // Frees what was given back during a capture.
  void free_deferred();

 private:
  CudaQueue& queue_;
  std::vector<void*> deferred_;
};

// A buffer of the device itself, outside the ledger.
class CudaBuffer {
 public:
  CudaBuffer() = default;
  CudaBuffer(CudaQueue& queue, Bytes bytes, const char* what);
  CudaBuffer(CudaBuffer&& other) noexcept { swap(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept;
  ~CudaBuffer();

  cuda::DevicePointer address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  Bytes bytes() const { return bytes_; }

 private:
  void swap(CudaBuffer& other) noexcept;

  cuda::DevicePointer address_ = 0;
  Bytes bytes_;
};

}  // namespace ridgeline

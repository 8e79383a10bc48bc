// Kernels that are loaded on a GPU: compiled or read from disk on first use, then found by a look.
#pragma once

#include <span>
#include <unordered_map>

#include "jit/cuda_jit.h"
#include "runtime/cuda/queue.h"

namespace ridgeline {

class KernelStore {
 public:
  KernelStore(CudaQueue& queue, JitOptions options) : queue_(queue), jit_(std::move(options)) {}
  ~KernelStore();
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  const CudaJit& jit() const { return jit_; }

  // Starts a launch, and loads its kernel before if that is new.
  void run(const CudaLaunch& launch);
  // Starts them in their order; those that are new are loaded together.
  void run(std::span<const CudaLaunch> launches);
  // The loaded function of a launch, allowed the shared memory that the launch asks for.
  cuda::Function function(const CudaLaunch& launch);
  // Those that are not loaded, each once.
  std::vector<CudaKernel> missing(std::span<const CudaKernel> kernels) const;
  // Loads several kernels, compiled in parallel.
  void load(std::span<const CudaKernel> kernels);
  // Loads kernels of which jit() has made these codes.
  void load(std::span<const CudaKernel> kernels, std::span<const MachineCode> codes);

 private:
  struct Hash {
    size_t operator()(const CudaKernel& kernel) const;
  };
  struct Loaded {
    cuda::Module module = nullptr;
    cuda::Function function = nullptr;
    uint32_t shared_bytes = 48 << 10;  // dynamic shared memory that the driver lets it have
  };

  Loaded& find(const CudaKernel& kernel);
  Loaded& add(const CudaKernel& kernel, const MachineCode& code);

  CudaQueue& queue_;
  CudaJit jit_;
  std::unordered_map<CudaKernel, Loaded, Hash> loaded_;
};

}  // namespace ridgeline

// Kernels loaded on a GPU: compiled or read from disk on first use, then looked up.
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

  // Runs a launch, loading its kernel first if it is new.
  void run(const CudaLaunch& launch);
  // Runs them in order; new kernels are loaded together.
  void run(std::span<const CudaLaunch> launches);
  // The loaded function of a launch, with the launch's shared memory enabled.
  cuda::Function function(const CudaLaunch& launch);
  // Those that are not loaded, each once.
  std::vector<CudaKernel> missing(std::span<const CudaKernel> kernels) const;
  // Loads several kernels, compiled in parallel.
  void load(std::span<const CudaKernel> kernels);
  // Loads kernels from the codes that jit() compiled.
  void load(std::span<const CudaKernel> kernels, std::span<const MachineCode> codes);

 private:
  struct Hash {
    size_t operator()(const CudaKernel& kernel) const;
  };
  struct Loaded {
    cuda::Module module = nullptr;
    cuda::Function function = nullptr;
    uint32_t shared_bytes = 48 << 10;  // the limit of its dynamic shared memory
  };

  Loaded& find(const CudaKernel& kernel);
  Loaded& add(const CudaKernel& kernel, const MachineCode& code);

  CudaQueue& queue_;
  CudaJit jit_;
  std::unordered_map<CudaKernel, Loaded, Hash> loaded_;
};

}  // namespace ridgeline

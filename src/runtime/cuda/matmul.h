// Matrix products by cuBLASLt, and by a kernel of our own where a few rows meet many: the algorithm
// of a shape is timed once and remembered.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/kernel_store.h"
#include "runtime/device.h"
#include "runtime/ledger.h"

namespace ridgeline {

enum class AlgorithmChoice { fastest, first };  // of what the library proposes

class CudaMatmul {
 public:
  // Takes the library's workspace from the driver, once; the library itself is opened by the first
  // product, which also takes a workspace for products that run beside others.
  CudaMatmul(CudaQueue& queue, KernelStore& kernels, Ledger& ledger, const CudaFacts& facts,
             AlgorithmChoice choice);
  ~CudaMatmul();

  // Operands that the library cannot read are copied first, into memory of the ledger.
  void run(const Product& product);

 private:
  struct Library;  // handle and prepared products

  CudaQueue& queue_;
  KernelStore& kernels_;
  Ledger& ledger_;
  const CudaFacts& facts_;
  AlgorithmChoice choice_;
  CudaBuffer workspace_;
  CudaBuffer side_workspace_;  // of products that run beside others
  std::unique_ptr<Library> library_;
};

}  // namespace ridgeline

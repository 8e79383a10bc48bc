// Matrix products by cuBLASLt, and by our own kernel for products of few rows: the algorithm for a
// shape is timed once and cached.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/kernel_store.h"
#include "runtime/device.h"
#include "runtime/ledger.h"

namespace ridgeline {

enum class AlgorithmChoice { fastest, first };  // of the library's algorithms

class CudaMatmul {
 public:
  // Allocates the library's workspace from the driver, once; the first product opens the library
  // and allocates a workspace for products on the side stream.
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
  CudaBuffer side_workspace_;  // of products on the side stream
  std::unique_ptr<Library> library_;
};

}  // namespace ridgeline

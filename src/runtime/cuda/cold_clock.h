// Times work behind a last cache that holds nothing of its operands, as the kernels of a whole
// model find it.
#pragma once

#include <functional>

#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/queue.h"

namespace ridgeline {

class ColdClock {
 public:
  ColdClock(CudaQueue& queue, int64_t l2_bytes);
  double best_ms(const std::function<void()>& work) const;  // of a few

 private:
  CudaQueue& queue_;
  CudaBuffer other_;
};

}  // namespace ridgeline

// Times work with an L2 that is cold for its operands, as it is for the kernels of a whole model.
#pragma once

#include <functional>

#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/queue.h"

namespace ridgeline {

class ColdClock {
 public:
  ColdClock(CudaQueue& queue, int64_t l2_bytes);
  double best_ms(const std::function<void()>& work) const;  // of a few repetitions

 private:
  CudaQueue& queue_;
  CudaBuffer other_;
};

}  // namespace ridgeline

// What every CPU kernel needs besides its tensors.
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/thread_pool.h"

namespace ridgeline {

struct CpuContext {
  ThreadPool& pool;
  Isa isa;
};

}  // namespace ridgeline

// What merged kernels do before they wait for the kernel before them: they have what they will read sent to the
// caches. Nothing is wrong if it is not, or, in the last cache, changes later.
#pragma once

#include "params.h"

namespace ridgeline {

constexpr int kLineBytes = 128;

__device__ __forceinline__ void prefetch_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// The beginnings of operands that nobody writes, as far as the multiprocessor.
template <int kThreads>
__device__ __forceinline__ void prefetch_kept(void* const (&memory)[kMergedOperands],
                                              const int (&kept_bytes)[kMergedOperands]) {
#pragma unroll
  for (int i = 0; i < kMergedOperands; ++i)
    for (int at = threadIdx.x * kLineBytes; at < kept_bytes[i]; at += kThreads * kLineBytes) {
      const char* line = static_cast<const char*>(memory[i]) + at;
      prefetch_line(line);
      asm volatile("prefetch.global.L1 [%0];" ::"l"(line));
    }
}

}  // namespace ridgeline
